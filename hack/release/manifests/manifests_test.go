// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const root = "../../.."

// leaves are the values of all fields of objects, each with its path. The order of lists does not matter.
type leaves map[string]bool

func (l leaves) add(path string, value any) {
	switch value := value.(type) {
	case map[string]any:
		for key, field := range value {
			l.add(path+"."+key, field)
		}
	case []any:
		for _, item := range value {
			if fields, ok := item.(map[string]any); ok && fields["name"] != nil {
				l.add(fmt.Sprintf("%s[%s]", path, fields["name"]), item)
			} else {
				l.add(path+"[]", item)
			}
		}
	default:
		text, err := json.Marshal(value)
		if err != nil {
			panic(err)
		}
		l[path+": "+string(text)] = true
	}
}

// leavesOf returns those of a kustomization's objects.
func leavesOf(t *testing.T, resources, components []string) leaves {
	t.Helper()
	text, err := json.Marshal(map[string]any{"resources": resources, "components": components})
	if err != nil {
		t.Fatal(err)
	}
	objects, err := Build(root, string(text))
	if err != nil {
		t.Fatal(err)
	}
	all := leaves{}
	for _, object := range objects.Resources() {
		fields, err := object.Map()
		if err != nil {
			t.Fatal(err)
		}
		all.add(object.CurId().String(), fields)
	}
	return all
}

// without returns the leaves that others do not have.
func (l leaves) without(others leaves) leaves {
	rest := maps.Clone(l)
	maps.DeleteFunc(rest, func(leaf string, _ bool) bool { return others[leaf] })
	return rest
}

// part is a directory of config that a site can add to config/default.
type part struct {
	name      string
	component bool
	base      bool // instead of config/default, which it includes
}

// parts are all but those of config/default.
func parts(t *testing.T) (all []part) {
	t.Helper()
	kustomizations, err := filepath.Glob(filepath.Join(root, "config", "*", "kustomization.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(filepath.Join(root, "config/default/kustomization.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range kustomizations {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(filepath.Dir(path))
		if name == "default" || bytes.Contains(whole, []byte("../"+name+"\n")) {
			continue
		}
		all = append(all, part{name: name, component: bytes.Contains(text, []byte("kind: Component\n")), base: bytes.Contains(text, []byte("../default\n"))})
	}
	return all
}

// leavesWith returns the leaves of config/default with some parts.
func leavesWith(t *testing.T, parts []part) leaves {
	t.Helper()
	var resources, components []string
	for _, part := range parts {
		if path := "../config/" + part.name; part.component {
			components = append(components, path)
		} else {
			resources = append(resources, path)
		}
	}
	if !slices.ContainsFunc(parts, func(p part) bool { return p.base }) {
		resources = append(resources, "../config/default")
	}
	return leavesOf(t, resources, components)
}

// Each part of a combination has the effect that it has alone, and no part undoes that of another.
func TestPartsCanBeCombined(t *testing.T) {
	all := parts(t)
	if len(all) < 3 { // admission, direct, embedded
		t.Fatalf("the parts are %v", all)
	}
	whole := leavesWith(t, nil)
	added, removed := make([]leaves, len(all)), make([]leaves, len(all))
	for i, part := range all {
		alone := leavesWith(t, all[i:i+1])
		added[i], removed[i] = alone.without(whole), whole.without(alone)
		if len(added[i]) == 0 {
			t.Errorf("%s has no effect", part.name)
		}
	}
	for set := range 1 << len(all) {
		var chosen []part
		want := maps.Clone(whole)
		for i, part := range all {
			if set&(1<<i) != 0 {
				chosen = append(chosen, part)
				want = want.without(removed[i])
			}
		}
		for i := range all {
			if set&(1<<i) != 0 {
				maps.Copy(want, added[i])
			}
		}
		got := leavesWith(t, chosen)
		for leaf := range want.without(got) {
			t.Errorf("%v: there is no %s", chosen, leaf)
		}
		for leaf := range got.without(want) {
			t.Errorf("%v: there is also %s", chosen, leaf)
		}
	}
}

// The same input gives the same bytes, with the image everywhere.
func TestWrite(t *testing.T) {
	const image, version = "registry.example.com:5000/hpc/flux-elastic", "v1.2.3"
	dirs := []string{t.TempDir(), t.TempDir()}
	for _, dir := range dirs {
		if err := Write(root, dir, image, version); err != nil {
			t.Fatal(err)
		}
	}
	for name, wants := range map[string][]string{
		"install.yaml":          {"kind: Namespace", "kind: CustomResourceDefinition", "- --leader-elect"},
		"install-embedded.yaml": {"kind: Namespace", "kind: CustomResourceDefinition", "- --leader-elect", "- --jobset=embedded", "name: flux-elastic-jobset"},
	} {
		text, err := os.ReadFile(filepath.Join(dirs[0], name))
		if err != nil {
			t.Fatal(err)
		}
		again, err := os.ReadFile(filepath.Join(dirs[1], name))
		if err != nil || !bytes.Equal(text, again) {
			t.Errorf("%s is not the same the second time: %v", name, err)
		}
		for _, want := range append(wants, "# flux-elastic "+version, "image: "+image+":"+version) {
			if !strings.Contains(string(text), want) {
				t.Errorf("%s has no %q", name, want)
			}
		}
	}
}
