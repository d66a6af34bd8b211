// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package jobset

import (
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/internal/broker"
)

// All JobSets of a version mount the same scripts, and the own files of each JobSet have none of them.
func TestScripts(t *testing.T) {
	mc := fixture.MiniCluster("lmp").Size(2).Defaulted()
	for name, change := range map[string]func(source *corev1.VolumeProjection) (drop bool){
		"of this version":                func(*corev1.VolumeProjection) bool { return false },
		"of another version":             func(source *corev1.VolumeProjection) bool { source.ConfigMap.Name = scriptsPrefix + "0"; return false },
		"before the scripts stood alone": func(*corev1.VolumeProjection) bool { return true },
	} {
		t.Run(name, func(t *testing.T) {
			set, err := JobSet(mc, 1)
			if err != nil {
				t.Fatal(err)
			}
			for i := range set.Spec.ReplicatedJobs {
				for _, volume := range set.Spec.ReplicatedJobs[i].Template.Spec.Template.Spec.Volumes {
					if volume.Projected != nil && change(&volume.Projected.Sources[0]) {
						volume.Projected.Sources = volume.Projected.Sources[1:]
					}
				}
			}
			NameFiles(mc, set, "1-abcde")
			objects, err := Files(mc, set, func() (string, error) { return "new", nil })
			if err != nil {
				t.Fatal(err)
			}
			files, scripts, names := objects[1].(*corev1.ConfigMap), Scripts(set), slices.Sorted(maps.Keys(broker.Scripts()))
			if files.Name != "lmp-entrypoint-1-abcde" || FilesName(set) != files.Name || FileNames(mc, set)[0] != objects[0].GetName() {
				t.Errorf("the files are %s, %s, %v", files.Name, FilesName(set), FileNames(mc, set))
			}
			has := func(name string) bool { return files.Data[name] != "" }
			if scripts == nil {
				if slices.IndexFunc(names, func(name string) bool { return !has(name) }) >= 0 || !strings.HasPrefix(name, "before") {
					t.Errorf("the files are %v", slices.Sorted(maps.Keys(files.Data)))
				}
				return
			}
			isOurs := name == "of this version"
			if slices.ContainsFunc(names, has) || slices.Contains(FileNames(mc, set), scripts.Name) != isOurs || len(scripts.OwnerReferences) > 0 {
				t.Errorf("the scripts are %s, and the files %v", scripts.Name, slices.Sorted(maps.Keys(files.Data)))
			}
			if IsIntact(scripts) != isOurs {
				t.Errorf("they are true: %t", !isOurs)
			}
		})
	}
}

// Only the scripts that a name promises are true, and only if nobody can change them.
func TestIsIntact(t *testing.T) {
	set, err := JobSet(fixture.MiniCluster("lmp").Size(2).Defaulted(), 1)
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(scripts *corev1.ConfigMap){
		"an edited script": func(s *corev1.ConfigMap) { s.Data["lead.sh"] += " " },
		"a missing script": func(s *corev1.ConfigMap) { delete(s.Data, "lead.sh") },
		"another file":     func(s *corev1.ConfigMap) { s.Data["more.sh"] = "" },
		"bytes":            func(s *corev1.ConfigMap) { s.BinaryData = map[string][]byte{"settings.sh": {}} },
		"may be changed":   func(s *corev1.ConfigMap) { s.Immutable = nil },
		"another name":     func(s *corev1.ConfigMap) { s.Name += "0" },
		"two files in one": func(s *corev1.ConfigMap) {
			s.Data["again.sh"] += s.Data["batch-job.sh"]
			delete(s.Data, "batch-job.sh")
		},
	} {
		t.Run(name, func(t *testing.T) {
			scripts := Scripts(set)
			if !IsIntact(scripts) {
				t.Fatal("they are not true before")
			}
			if change(scripts); IsIntact(scripts) {
				t.Error("they are true")
			}
		})
	}
}
