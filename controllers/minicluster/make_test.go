// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package minicluster

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/internal/jobset"
	"github.com/flux-elastic/flux-elastic/internal/protocol"
	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/life"
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
	if err := jobset.Remember(mc, set); err != nil {
		t.Fatal(err)
	}
	files, err := jobset.Files(mc, set, func() (string, error) { return "the first", nil })
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		made  []client.Object
		full  bool // the quota
		edit  bool // of the spec, which alone would make no files any more
		fails bool
	}{
		"none were made":                       {},
		"the Secret was made":                  {made: files[:1]},
		"all were made":                        {made: files},
		"all were made, and fill a quota":      {made: append(slices.Clone(files), jobset.Scripts(set)), full: true},
		"all were made, the spec was edited":   {made: files, edit: true},
		"none were made, the spec was edited":  {edit: true},
		"the Secret was made, a quota is full": {made: slices.Concat(files[:1], []client.Object{jobset.Scripts(set)}), full: true, fails: true},
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
			m := &maker{client: c, live: live{c}}
			memory, mc := &memory{}, mc.DeepCopy()
			seen := &observed{memory: memory, view: state.View{MiniCluster: mc, JobSet: set}}
			if tc.edit { // too many tasks for the cores
				mc.Spec.Tasks = new(int32(1000))
				mc.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
			}
			if err := m.makeFiles(t.Context(), seen, set); (err != nil) != tc.fails {
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
			var made corev1.ConfigMap
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(files[1]), &made); err != nil {
				t.Fatal(err)
			}
			if !maps.Equal(made.Data, files[1].(*corev1.ConfigMap).Data) {
				t.Error("the files are not those of the spec from which the JobSet was made")
			}
		})
	}
}

// While brokers have the certificate, its Secret is not made again. Everything else is.
func TestRepair(t *testing.T) {
	for name, tc := range map[string]struct {
		deleted             []string
		begun, inSpec, edit bool
		another             bool   // manager, which did not make the files
		want                string // in the error
	}{
		"nothing was deleted":                           {begun: true},
		"the ConfigMap and the Service":                 {deleted: []string{"ConfigMap", "Service"}, begun: true},
		"the Secret, and no container has begun":        {deleted: []string{"Secret"}},
		"the Secret, and a container has begun":         {deleted: []string{"Secret"}, begun: true, want: "suspend the MiniCluster"},
		"all":                                           {deleted: []string{"Secret", "ConfigMap", "Service"}, begun: true, want: "suspend the MiniCluster"},
		"the Secret, and another manager":               {deleted: []string{"Secret"}, begun: true, another: true, want: "suspend the MiniCluster"},
		"the manager before made no files":              {deleted: []string{"Secret", "ConfigMap"}, begun: true, another: true},
		"a Secret of the spec":                          {deleted: []string{"Secret", "ConfigMap"}, begun: true, inSpec: true},
		"a Secret of the spec, which was edited":        {deleted: []string{"Secret"}, begun: true, inSpec: true, edit: true, want: "spec.flux.curveCert was edited"},
		"the Secret of the spec, and nothing has begun": {deleted: []string{"Secret"}, inSpec: true},
	} {
		t.Run(name, func(t *testing.T) {
			mc := fixture.MiniCluster("lmp").Size(2).Spec(func(s *v1alpha2.MiniClusterSpec) {
				if tc.inSpec {
					s.Flux.CurveCert = "from the spec"
				}
			}).Admitted(1, 2, "n[0-1]").Defaulted()
			objects, err := jobset.Objects(mc, 1)
			if err != nil {
				t.Fatal(err)
			}
			set := objects[len(objects)-1].(*jobsetapi.JobSet)
			set.UID = "set"
			jobset.NameFiles(mc, set, "1-abcde")
			if err := jobset.Remember(mc, set); err != nil {
				t.Fatal(err)
			}
			files, err := jobset.Files(mc, set, func() (string, error) { return "the first", nil })
			if err != nil {
				t.Fatal(err)
			}
			there := slices.Concat(files, objects[:len(objects)-1])
			isDeleted := func(object client.Object) bool {
				return slices.Contains(tc.deleted, object.GetObjectKind().GroupVersionKind().Kind)
			}
			c := fake.NewClientBuilder().WithObjects(slices.DeleteFunc(copies(there), isDeleted)...).WithInterceptorFuncs(interceptor.Funcs{
				Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
					found := object.DeepCopyObject().(client.Object)
					if c.Get(ctx, client.ObjectKeyFromObject(object), found) == nil { // also in a dry run, as an API server does
						return apierrors.NewAlreadyExists(corev1.Resource("objects"), object.GetName())
					}
					return c.Create(ctx, object, options...)
				},
			}).Build()
			m := &maker{client: c, live: live{c}}
			mc.Spec.Size = 1 // an edit: what is made again is of the spec before
			if tc.edit {
				mc.Spec.Flux.CurveCert = "another"
			}
			seen := &observed{now: fixture.Noon, memory: &memory{files: set.UID}, view: state.View{MiniCluster: mc, JobSet: set}}
			seen.observation = &life.Observation{Workload: life.Active, Record: life.Record{Admission: &life.Admission{At: fixture.Noon}}, Brokers: []life.Broker{{State: life.Up}, {State: life.Coming}}}
			if tc.another {
				seen.memory.files = ""
			}
			if pod := fixture.BrokerPod("lmp", 0).On("n0").Obj(); tc.begun {
				pod.Labels[jobsetapi.JobSetUIDKey] = "set"
				pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}}}
				seen.view.Pods = []protocol.Pod{protocol.Read(pod)}
			}
			again, err := m.repair(t.Context(), seen)
			if tc.want == "" && (err != nil || !again.Equal(fixture.Noon.Add(repairInterval))) {
				t.Fatal(again, err)
			}
			if tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Fatal(err)
			}
			if tc.edit {
				return
			}
			for _, object := range there {
				kind := object.GetObjectKind().GroupVersionKind().Kind
				found := object.DeepCopyObject().(client.Object)
				err := c.Get(t.Context(), client.ObjectKeyFromObject(object), found)
				if stays := tc.want == "" || kind != "Secret"; (err == nil) != stays {
					t.Errorf("%s: %v", kind, err)
				}
				if made, ok := found.(*corev1.ConfigMap); ok && !maps.Equal(made.Data, object.(*corev1.ConfigMap).Data) {
					t.Error("the ConfigMap has another content")
				}
			}
		})
	}
}

// A namespace has the scripts of each version once. Nobody puts other scripts in their place.
func TestCreateScripts(t *testing.T) {
	mc := fixture.MiniCluster("lmp").Size(2).Defaulted()
	set, err := jobset.JobSet(mc, 1)
	if err != nil {
		t.Fatal(err)
	}
	ours := jobset.Scripts(set)
	faulty := ours.DeepCopy()
	faulty.Data["lead.sh"] = "of somebody else"
	for name, tc := range map[string]struct {
		there   *corev1.ConfigMap
		late    bool // somebody else makes it at the same time
		full    bool // the quota
		another bool // version made the JobSet
		want    string
	}{
		"there are none":                     {},
		"they are there":                     {there: ours},
		"they are there, and fill a quota":   {there: ours, full: true},
		"a quota is full":                    {full: true, want: "forbidden"},
		"another MiniCluster makes them":     {there: ours, late: true},
		"others are there":                   {there: faulty, want: "has not the scripts"},
		"somebody makes others":              {there: faulty, late: true, want: "has not the scripts"},
		"of another version, which are gone": {there: ours, another: true, want: "of another version of the manager"},
		"of another version, and not these":  {there: renamed(ours, "flux-elastic-scripts-0"), another: true, want: "has not the scripts"},
	} {
		t.Run(name, func(t *testing.T) {
			reads := 0
			hides := func() bool { return tc.late && reads < 2 }
			c := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
				Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
					if reads++; hides() {
						return apierrors.NewNotFound(corev1.Resource("configmaps"), key.Name)
					}
					return c.Get(ctx, key, object, options...)
				},
				Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
					if tc.full {
						return apierrors.NewForbidden(corev1.Resource("configmaps"), object.GetName(), nil)
					}
					return c.Create(ctx, object, options...)
				},
			})
			if tc.there != nil {
				c = c.WithObjects(tc.there.DeepCopy())
			}
			set := set.DeepCopy()
			if tc.another {
				for i := range set.Spec.ReplicatedJobs {
					for _, volume := range set.Spec.ReplicatedJobs[i].Template.Spec.Template.Spec.Volumes {
						if volume.Projected != nil {
							volume.Projected.Sources[0].ConfigMap.Name = "flux-elastic-scripts-0"
						}
					}
				}
			}
			built := c.Build()
			m := &maker{client: built, live: live{built}}
			for range 2 {
				if err := m.createScripts(t.Context(), set); (err == nil) != (tc.want == "") || (err != nil && !strings.Contains(err.Error(), tc.want)) {
					t.Fatalf("got %v, want %q", err, tc.want)
				}
			}
			if tc.want == "" {
				reads = 2
				if err := built.Get(t.Context(), client.ObjectKeyFromObject(ours), &corev1.ConfigMap{}); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func renamed(scripts *corev1.ConfigMap, name string) *corev1.ConfigMap {
	scripts = scripts.DeepCopy()
	scripts.Name = name
	return scripts
}

func copies(objects []client.Object) []client.Object {
	var out []client.Object
	for _, object := range objects {
		out = append(out, object.DeepCopyObject().(client.Object))
	}
	return out
}
