// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package minicluster

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/internal/jobset"
)

// A manager that was started again makes the files that its predecessor did not, and keeps the
// others. A full quota, which refuses files that exist too, stops only a JobSet without files.
func TestMakeFiles(t *testing.T) {
	mc := fixture.MiniCluster("lmp").Size(2).Defaulted()
	set, err := jobset.JobSet(mc, 1)
	if err != nil {
		t.Fatal(err)
	}
	set.UID = "set"
	jobset.NameFiles(mc, set, "1-abcde")
	files, err := jobset.Files(mc, set, func() (string, error) { return "the first", nil })
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		made  []client.Object
		full  bool // the quota
		edit  bool // of the spec, which makes no files any more
		fails bool
	}{
		"none were made":                       {},
		"the Secret was made":                  {made: files[:1]},
		"all were made":                        {made: files},
		"all were made, and fill a quota":      {made: files, full: true},
		"all were made, the spec was edited":   {made: files, edit: true},
		"none were made, the spec was edited":  {edit: true, fails: true},
		"the Secret was made, a quota is full": {made: files[:1], full: true, fails: true},
		"none were made, a quota is full":      {full: true, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			c := fake.NewClientBuilder().WithObjects(copies(tc.made)...).WithInterceptorFuncs(interceptor.Funcs{
				Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
					if tc.full {
						return apierrors.NewForbidden(corev1.Resource("secrets"), object.GetName(), nil)
					}
					return c.Create(ctx, object, options...)
				},
			}).Build()
			r := &Reconciler{Client: c, Live: c}
			memory, mc := &memory{}, mc.DeepCopy()
			if tc.edit { // too many tasks for the cores
				mc.Spec.Tasks = new(int32(1000))
				mc.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
			}
			if err := r.makeFiles(t.Context(), mc, set, memory); (err != nil) != tc.fails {
				t.Fatal(err)
			}
			if (memory.files == set.UID) == tc.fails {
				t.Errorf("it remembers the files of %q", memory.files)
			}
			if tc.fails {
				return
			}
			var secret corev1.Secret
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(files[0]), &secret); err != nil {
				t.Fatal(err)
			}
			if kept := string(secret.Data["curve.cert"]) == "the first"; kept != (len(tc.made) > 0) {
				t.Errorf("the certificate is %q", secret.Data["curve.cert"])
			}
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(files[1]), &corev1.ConfigMap{}); err != nil {
				t.Error(err)
			}
		})
	}
}

func copies(objects []client.Object) []client.Object {
	var out []client.Object
	for _, object := range objects {
		out = append(out, object.DeepCopyObject().(client.Object))
	}
	return out
}
