// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-elastic/flux-elastic/dev/fixture"
)

// ephemeral is the source of a volume of a class.
func ephemeral(class *string) *corev1.EphemeralVolumeSource {
	return &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{
		Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: class},
	}}
}

func claim(name string, change func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: fixture.Namespace, Name: name}}
	c.Status.Phase = corev1.ClaimPending
	change(c)
	return c
}

func boundTo(volume string) func(*corev1.PersistentVolumeClaim) {
	return func(c *corev1.PersistentVolumeClaim) {
		c.Spec.VolumeName, c.Status.Phase = volume, corev1.ClaimBound
	}
}

func ofClass(class string) func(*corev1.PersistentVolumeClaim) {
	return func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = &class }
}

// selects is a term that matches some values of a label.
func selects(label string, values ...string) corev1.NodeSelectorTerm {
	return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: label, Operator: corev1.NodeSelectorOpIn, Values: values}}}
}

func volume(name string, terms ...corev1.NodeSelectorTerm) *corev1.PersistentVolume {
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if len(terms) > 0 {
		v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: terms}}
	}
	return v
}

// storageClass has the topologies of some values of the label zone: each is one term.
func storageClass(name string, mode *storagev1.VolumeBindingMode, zones ...string) storagev1.StorageClass {
	c := storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, VolumeBindingMode: mode}
	for _, zone := range zones {
		c.AllowedTopologies = append(c.AllowedTopologies, corev1.TopologySelectorTerm{
			MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{{Key: "zone", Values: []string{zone}}},
		})
	}
	return c
}

// stored is a Storage with claims and volumes as the cache has them.
func stored(t *testing.T) Storage {
	t.Helper()
	late, now := new(storagev1.VolumeBindingWaitForFirstConsumer), new(storagev1.VolumeBindingImmediate)
	claims := []*corev1.PersistentVolumeClaim{
		claim("data", boundTo("data-pv")),
		claim("disk", boundTo("disk-pv")),
		claim("shared", boundTo("shared-pv")),
		claim("half", func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "data-pv" }),
		claim("dangling", boundTo("nowhere")),
		claim("zonal", ofClass("zonal")),
		claim("global", ofClass("global")),
		claim("early", ofClass("early")),
		claim("modeless", ofClass("modeless")),
		claim("unclassed", func(*corev1.PersistentVolumeClaim) {}),
		claim("unknown", ofClass("nowhere")),
		claim("beta", func(c *corev1.PersistentVolumeClaim) {
			ofClass("early")(c)
			c.Annotations = map[string]string{corev1.BetaStorageClassAnnotation: "zonal"}
		}),
		claim("lost", func(c *corev1.PersistentVolumeClaim) {
			boundTo("data-pv")(c)
			c.Status.Phase = corev1.ClaimLost
		}),
		claim("leaving", func(c *corev1.PersistentVolumeClaim) {
			boundTo("data-pv")(c)
			c.DeletionTimestamp = &metav1.Time{Time: fixture.Noon}
		}),
		claim("once", func(c *corev1.PersistentVolumeClaim) {
			boundTo("shared-pv")(c)
			c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
		}),
	}
	volumes := []*corev1.PersistentVolume{
		volume("data-pv", selects("zone", "a"), selects("zone", "b")), volume("disk-pv", selects("disk", "ssd")), volume("shared-pv"),
	}
	classes := []storagev1.StorageClass{storageClass("zonal", late, "a", "b"), storageClass("global", late), storageClass("early", now, "a"), storageClass("modeless", nil, "a")}
	standard := storageClass("standard", late, "b")
	return Storage{
		Claim:        func(name string) *corev1.PersistentVolumeClaim { return find(t, claims, name) },
		Volume:       func(name string) *corev1.PersistentVolume { return find(t, volumes, name) },
		DefaultClass: func() *storagev1.StorageClass { return &standard },
		Class: func(name string) *storagev1.StorageClass {
			for i := range classes {
				if classes[i].Name == name {
					return &classes[i]
				}
			}
			return nil
		},
	}
}

// find is the object of a name as the cache has it; nil if there is none.
func find[T metav1.Object](t *testing.T, objects []T, name string) (none T) {
	t.Helper()
	for _, object := range objects {
		if object.GetName() != name {
			continue
		}
		stripped, err := StripStorage(object)
		if err != nil {
			t.Fatal(err)
		}
		return stripped.(T)
	}
	return none
}

func TestReachOf(t *testing.T) {
	dataPV := Volume{&corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{selects("zone", "a"), selects("zone", "b")}}, "cannot reach volume data-pv of claim data"}
	diskPV := Volume{&corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{selects("disk", "ssd")}}, "cannot reach volume disk-pv of claim disk"}
	zonal := Volume{dataPV.Nodes, "outside of the topologies of StorageClass zonal"}
	early := Volume{&corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{selects("zone", "a")}}, "outside of the topologies of StorageClass early"}
	standard := Volume{&corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{selects("zone", "b")}}, "outside of the topologies of StorageClass standard"}
	for name, tc := range map[string]struct {
		claims    []string
		ephemeral []*string // classes
		least     int
		want      []Volume
		waits     string
	}{
		"a pod without volumes":             {},
		"a bound claim":                     {claims: []string{"data"}, want: []Volume{dataPV}},
		"two bound claims":                  {claims: []string{"data", "disk"}, want: []Volume{dataPV, diskPV}},
		"a volume that all nodes reach":     {claims: []string{"shared"}},
		"a claim that is bound with a pod":  {claims: []string{"zonal"}, want: []Volume{zonal}},
		"a class that the annotation names": {claims: []string{"beta"}, want: []Volume{zonal}},
		"a class for all nodes":             {claims: []string{"global"}},
		"an ephemeral volume":               {ephemeral: []*string{new("zonal")}, want: []Volume{zonal}},
		"one that is bound at once":         {ephemeral: []*string{new("early")}, want: []Volume{early}},
		"one of the default class":          {ephemeral: []*string{nil}, want: []Volume{standard}},
		"one of no class":                   {ephemeral: []*string{new("")}},
		"one of a missing class":            {ephemeral: []*string{new("nowhere")}, waits: "there is no StorageClass nowhere, which the ephemeral volume e0 needs"},
		"a missing claim":                   {claims: []string{"nowhere"}, waits: "there is no PersistentVolumeClaim nowhere"},
		"a claim that its controller binds": {claims: []string{"early"}, waits: "PersistentVolumeClaim early is not bound to a volume yet"},
		"the default mode":                  {claims: []string{"modeless"}, waits: "PersistentVolumeClaim modeless is not bound to a volume yet"},
		"a claim without a class":           {claims: []string{"unclassed"}, waits: "PersistentVolumeClaim unclassed is not bound to a volume yet"},
		"a claim for one volume":            {claims: []string{"half"}, waits: "PersistentVolumeClaim half is not bound to a volume yet"},
		"a claim of a missing class":        {claims: []string{"unknown"}, waits: "PersistentVolumeClaim unknown is not bound to a volume yet, and there is no StorageClass nowhere"},
		"a missing volume":                  {claims: []string{"dangling"}, waits: "there is no PersistentVolume nowhere, to which PersistentVolumeClaim dangling is bound"},
		"a claim that lost its volume":      {claims: []string{"lost"}, waits: "PersistentVolumeClaim lost has lost its volume"},
		"a claim that goes":                 {claims: []string{"leaving"}, waits: "PersistentVolumeClaim leaving is being deleted"},
		"a claim for one pod":               {claims: []string{"once"}, least: 1},
		"a claim for one pod, and a gang": {claims: []string{"once"}, least: 2,
			waits: "PersistentVolumeClaim once has the access mode ReadWriteOncePod: one pod can use it, and 2 brokers need it"},
		"the first reason": {claims: []string{"lost", "data", "nowhere"}, want: []Volume{dataPV}, waits: "PersistentVolumeClaim lost has lost its volume"},
	} {
		t.Run(name, func(t *testing.T) {
			pod := fixture.Pod("x").Spec(func(s *corev1.PodSpec) {
				s.Volumes = append(s.Volumes, corev1.Volume{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
				for _, name := range tc.claims {
					s.Volumes = append(s.Volumes, corev1.Volume{VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}})
				}
				for i, class := range tc.ephemeral {
					s.Volumes = append(s.Volumes, corev1.Volume{Name: "e" + string(rune('0'+i)), VolumeSource: corev1.VolumeSource{Ephemeral: ephemeral(class)}})
				}
			}).Obj()
			got := ReachOf(pod, tc.least, stored(t))
			if got.Waits != tc.waits {
				t.Errorf("it waits: %q, want %q", got.Waits, tc.waits)
			}
			var open []Volume
			closed := false // some volume keeps all nodes away
			for _, v := range got.Volumes {
				if len(v.Nodes.NodeSelectorTerms) > 0 {
					open = append(open, v)
				} else {
					closed = true
				}
			}
			if diff := cmp.Diff(tc.want, open); diff != "" {
				t.Errorf("volumes (-want +got):\n%s", diff)
			}
			if closed != (tc.waits != "") || (got.Key == "") != (len(got.Volumes) == 0) {
				t.Errorf("no node is left: %v, and the key is %q", closed, got.Key)
			}
		})
	}
}

func TestDefaultClass(t *testing.T) {
	made := func(name, annotation string, minutes int) storagev1.StorageClass {
		c := storageClass(name, nil)
		c.CreationTimestamp = metav1.NewTime(fixture.Noon.Add(time.Duration(minutes) * time.Minute))
		c.Annotations = map[string]string{annotation: "true"}
		return c
	}
	const by = "storageclass.kubernetes.io/is-default-class"
	for name, tc := range map[string]struct {
		classes []storagev1.StorageClass
		want    string
	}{
		"none":                   {[]storagev1.StorageClass{storageClass("a", nil), made("b", "other", 0)}, ""},
		"one":                    {[]storagev1.StorageClass{storageClass("a", nil), made("b", by, 0)}, "b"},
		"one by the old name":    {[]storagev1.StorageClass{made("b", "storageclass.beta.kubernetes.io/is-default-class", 0)}, "b"},
		"the newest":             {[]storagev1.StorageClass{made("a", by, 0), made("b", by, 1), made("c", by, 0)}, "b"},
		"the first of equal age": {[]storagev1.StorageClass{made("c", by, 0), made("a", by, 0), made("b", by, 0)}, "a"},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if class := DefaultClass(tc.classes); class != nil {
				got = class.Name
			}
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
