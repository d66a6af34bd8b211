// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package jobset

import (
	"errors"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/internal/broker"
)

// withCertificate are the volumes of a pod that have the certificate, with its projection.
func withCertificate(pod *corev1.Pod) map[string]*corev1.SecretProjection {
	volumes := map[string]*corev1.SecretProjection{}
	for i := range pod.Spec.Volumes {
		if projected := pod.Spec.Volumes[i].Projected; projected != nil {
			for _, source := range projected.Sources {
				if source.Secret != nil {
					volumes[pod.Spec.Volumes[i].Name] = source.Secret
				}
			}
		}
	}
	return volumes
}

// Only the container of the broker has the certificate.
func TestWhoHasTheCertificate(t *testing.T) {
	mc := fixture.MiniCluster("lmp").Size(2).Spec(func(s *v1alpha2.MiniClusterSpec) {
		s.Containers[0].RunFlux = true
		s.Containers = append(s.Containers, v1alpha2.MiniClusterContainer{Name: "beside", Image: "i", Command: "watch"})
		s.Services = []v1alpha2.MiniClusterContainer{{Name: "db", Image: "i", Command: "db"}}
	}).Defaulted()
	pod, err := Pod(mc)
	if err != nil {
		t.Fatal(err)
	}
	services, err := ServicesPod(mc)
	if err != nil {
		t.Fatal(err)
	}
	var have, scripts []string
	for _, pod := range []*corev1.Pod{pod, services} {
		secret := withCertificate(pod)
		for _, container := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
			for _, mount := range container.VolumeMounts {
				if secret[mount.Name] != nil {
					have = append(have, container.Name)
				}
				if mount.MountPath == broker.Dir {
					scripts = append(scripts, container.Name)
				}
			}
		}
	}
	if !slices.Equal(have, []string{"lmp"}) || len(scripts) != 4 {
		t.Errorf("%v have the certificate, and %v the scripts", have, scripts)
	}
}

// The certificate can be read by the user of the broker, if that is known, and by nobody else.
func TestModeOfTheCertificate(t *testing.T) {
	root, user := new(int64(0)), new(int64(1000))
	for name, tc := range map[string]struct {
		pod       *corev1.PodSecurityContext
		container *corev1.SecurityContext
		want      int32
	}{
		"the image names the user":            {nil, nil, 0o444},
		"root":                                {&corev1.PodSecurityContext{RunAsUser: root}, nil, 0o400},
		"root by the container":               {&corev1.PodSecurityContext{RunAsUser: user, FSGroup: user}, &corev1.SecurityContext{RunAsUser: root}, 0o400},
		"a user who does not own the file":    {&corev1.PodSecurityContext{RunAsUser: user}, nil, 0o444},
		"also by the container":               {&corev1.PodSecurityContext{RunAsUser: root}, &corev1.SecurityContext{RunAsUser: user}, 0o444},
		"a user whose group owns the file":    {&corev1.PodSecurityContext{RunAsUser: user, FSGroup: user}, nil, 0o440},
		"the image names a user of the group": {&corev1.PodSecurityContext{FSGroup: user}, &corev1.SecurityContext{}, 0o440},
	} {
		t.Run(name, func(t *testing.T) {
			mc := fixture.MiniCluster("lmp").Spec(func(s *v1alpha2.MiniClusterSpec) {
				s.Pod.SecurityContext, s.Containers[0].SecurityContext = tc.pod, tc.container
			}).Defaulted()
			pod, err := Pod(mc)
			if err != nil {
				t.Fatal(err)
			}
			if secret := withCertificate(pod)[filesVolume]; *secret.Items[0].Mode != tc.want {
				t.Errorf("mode %o, want %o", *secret.Items[0].Mode, tc.want)
			}
		})
	}
}

// A Secret of the user keeps its name and its key, and no other is made.
func TestCertificateOfTheUser(t *testing.T) {
	mc := fixture.MiniCluster("lmp").Size(2).Spec(func(s *v1alpha2.MiniClusterSpec) {
		s.Flux.CurveCertSecretRef = &v1alpha2.Secret{Name: "mine", Key: "cert"}
	}).Defaulted()
	set, err := JobSet(mc, 1)
	if err != nil {
		t.Fatal(err)
	}
	NameFiles(mc, set, "1-abcde")
	files, err := Files(mc, set, func() (string, error) { return "", errors.New("a certificate is made") })
	if err != nil || len(files) != 1 || files[0].GetName() != "lmp-entrypoint-1-abcde" {
		t.Errorf("the files are %v (%v)", files, err)
	}
	for _, job := range set.Spec.ReplicatedJobs {
		secret := withCertificate(&corev1.Pod{Spec: job.Template.Spec.Template.Spec})[filesVolume]
		if secret.Name != "mine" || secret.Items[0].Key != "cert" || secret.Items[0].Path != broker.CertificateFile {
			t.Errorf("a job mounts %+v", secret)
		}
	}
}

// The spec may change between a JobSet and its files. The pods mount what the spec said when the JobSet was made.
func TestCertificateOfTheJobSet(t *testing.T) {
	own := v1alpha2.FluxSpec{}
	text := v1alpha2.FluxSpec{CurveCert: "my own"}
	ref := v1alpha2.FluxSpec{CurveCertSecretRef: &v1alpha2.Secret{Name: "foo", Key: "cert"}}
	for name, tc := range map[string]struct {
		before, after v1alpha2.FluxSpec
		secret, want  string // the name and the text of the Secret
	}{
		"a reference is added":              {own, ref, "lmp-curve-1-abcde", "a new one"},
		"a reference replaces a text":       {text, ref, "lmp-curve-1-abcde", "a new one"},
		"a reference is removed":            {ref, own, "", ""},
		"a text replaces a reference":       {ref, text, "", ""},
		"the Secret is called like another": {v1alpha2.FluxSpec{CurveCertSecretRef: &v1alpha2.Secret{Name: "lmp-curve", Key: "cert"}}, text, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			with := func(flux v1alpha2.FluxSpec) *v1alpha2.MiniCluster {
				return fixture.MiniCluster("lmp").Size(2).Spec(func(s *v1alpha2.MiniClusterSpec) {
					s.Flux.CurveCert, s.Flux.CurveCertSecretRef = flux.CurveCert, flux.CurveCertSecretRef
				}).Defaulted()
			}
			set, err := JobSet(with(tc.before), 1)
			if err != nil {
				t.Fatal(err)
			}
			NameFiles(with(tc.before), set, "1-abcde")
			files, err := Files(with(tc.after), set, func() (string, error) { return "a new one", nil })
			if err != nil {
				t.Fatal(err)
			}
			secret, got := "", ""
			for _, file := range files {
				if file, ok := file.(*corev1.Secret); ok {
					secret, got = file.Name, string(file.Data[broker.CertificateFile])
				}
			}
			if secret != tc.secret || got != tc.want || files[len(files)-1].GetName() != "lmp-entrypoint-1-abcde" {
				t.Errorf("the Secret is %q with %q, of %d files", secret, got, len(files))
			}
		})
	}
}
