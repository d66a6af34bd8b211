// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package jobset

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
)

// The files of a JobSet are those of the spec from which the JobSet was made, whatever was edited since.
func TestRemember(t *testing.T) {
	for name, certificate := range map[string]string{"a certificate of its own": "", "a certificate in the spec": "secret"} {
		t.Run(name, func(t *testing.T) {
			mc := fixture.MiniCluster("lmp").Size(4).Command("first").Defaulted()
			mc.Spec.Flux.CurveCert, mc.Status.MaximumSize, mc.Status.Runs = certificate, 3, 2
			set, err := JobSet(mc, 1)
			if err != nil {
				t.Fatal(err)
			}
			NameFiles(mc, set, "1-abcde")
			if err := Remember(mc, set); err != nil {
				t.Fatal(err)
			}
			files := func(mc *v1alpha2.MiniCluster) any {
				was, err := Remembered(mc, set)
				if err != nil {
					t.Fatal(err)
				}
				made, err := Files(was, set, func() (string, error) { return "new", nil })
				if err != nil {
					t.Fatal(err)
				}
				return made
			}
			before := files(mc)
			mc.Spec.Size, mc.Spec.MinSize, mc.Status.MaximumSize, mc.Status.Runs = 2, 1, 2, 3
			mc.Spec.Containers[0].Command = "second"
			if after := files(mc); !reflect.DeepEqual(before, after) {
				t.Errorf("before the edit: %v\nafter it: %v", before, after)
			}
			if text := set.Annotations[v1alpha2.InputAnnotation]; strings.Contains(text, "secret") {
				t.Error(text)
			} else if in, err := unpack(text); err != nil || in.Spec.Flux.CurveCert != "" {
				t.Errorf("it tells the certificate %q: %v", in.Spec.Flux.CurveCert, err)
			}
			mc.Spec.Flux.CurveCert = "other"
			if _, err := Remembered(mc, set); (certificate != "") != errors.Is(err, ErrCertificateEdited) {
				t.Error(err)
			}
		})
	}
}

// A JobSet of an older version tells no spec, and the present one stands in. What cannot be read is an error.
func TestRememberNothing(t *testing.T) {
	mc, set := fixture.MiniCluster("lmp").Defaulted(), &jobsetapi.JobSet{}
	if was, err := Remembered(mc, set); was != mc || err != nil {
		t.Errorf("%v %v", was, err)
	}
	set, err := JobSet(mc, 1)
	if err != nil {
		t.Fatal(err)
	}
	packed := func(json string) string {
		t.Helper()
		text, err := pack([]byte(json))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	many := func(n int) string { return packed(`{"spec":{"containers":[` + strings.Repeat("{},", n) + `{}]}}`) }
	for _, text := range []string{"", "?", "H4sI", "bm8gemlw", packed("{"), packed("{}"), packed(`{"spec":{"size":3}}`), many(20_000), many(5_000_000)} {
		set.Annotations = map[string]string{v1alpha2.InputAnnotation: text}
		if was, err := Remembered(mc, set); err == nil {
			t.Errorf("%q is %v", text, was)
		}
	}
}
