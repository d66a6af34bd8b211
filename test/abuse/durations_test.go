// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package abuse

import (
	"os"
	"reflect"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
)

// SECURITY.md says of every duration of a MiniCluster what bounds how long it keeps nodes from others.
func TestDurationsAreBounded(t *testing.T) {
	page, err := os.ReadFile("../../SECURITY.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "## How long a tenant may stay")
	table, _, _ = strings.Cut(table, "\n## ")
	durations := durationsOf(reflect.TypeFor[v1alpha2.MiniClusterSpec](), "")
	if len(durations) < 10 {
		t.Errorf("the durations are %v", durations)
	}
	for _, field := range durations {
		if !strings.Contains(table, "`"+field+"`") {
			t.Errorf("SECURITY.md does not say what bounds %s", field)
		}
	}
}

// durationsOf are the fields of a type of the API that are durations, by their paths.
func durationsOf(of reflect.Type, path string) (fields []string) {
	for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
		of = of.Elem()
	}
	if of == reflect.TypeFor[metav1.Duration]() || strings.Contains(path, "Seconds") {
		return []string{path}
	}
	if of.Kind() != reflect.Struct || of.PkgPath() != reflect.TypeFor[v1alpha2.MiniClusterSpec]().PkgPath() {
		return nil
	}
	for field := range of.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		fields = append(fields, durationsOf(field.Type, strings.TrimPrefix(path+"."+name, "."))...)
	}
	return fields
}
