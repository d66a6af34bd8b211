// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/simulator"
)

// provide makes what an example needs of the cluster.
var provide = map[string]func(*site){
	"volumes":   func(s *site) { s.provideVolume("volumes-results") },
	"malleable": func(s *site) { s.provideVolume("malleable-checkpoints") },
	"gpu":       func(s *site) { s.provideResources(map[string]string{"nvidia.com/gpu": "4"}) },
	"fabric": func(s *site) {
		s.provideResources(map[string]string{"vpc.amazonaws.com/efa": "1", "hugepages-2Mi": "2Gi"})
	},
}

// provideVolume makes a volume for a claim.
func (s *site) provideVolume(claim string) {
	s.t.Helper()
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: s.namespace},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:               corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			AccessModes:            []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany},
			ClaimRef:               &corev1.ObjectReference{Namespace: s.namespace, Name: claim},
			PersistentVolumeSource: corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{Server: "server", Path: "/results"}},
		},
	}
	if err := env.client.Create(s.ctx, volume); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { s.delete(volume) })
}

// provideResources gives the nodes of the site more resources until the test ends.
func (s *site) provideResources(amounts map[string]string) {
	s.t.Helper()
	set := func(amount func(name string) any) {
		all := map[string]any{}
		for name := range amounts {
			all[name] = amount(name)
		}
		status, err := json.Marshal(map[string]any{"status": map[string]any{"capacity": all, "allocatable": all}})
		for _, name := range s.nodes {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
			if err := errors.Join(err, env.client.Status().Patch(s.ctx, node, client.RawPatch(types.MergePatchType, status))); err != nil {
				s.t.Error(err)
			}
		}
	}
	set(func(name string) any { return amounts[name] })
	s.t.Cleanup(func() { set(func(string) any { return nil }) })
}

// The examples are applied as they are, by kubectl, into an empty namespace. They may
// run on any node, so no other test runs meanwhile.
func TestExamples(t *testing.T) {
	examples, err := filepath.Glob(filepath.Join(env.Root, "examples", "*", "minicluster.yaml"))
	if err != nil || len(examples) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	for _, path := range examples {
		name := filepath.Base(filepath.Dir(path))
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, 2)
			if provide := provide[name]; provide != nil {
				provide(s)
			}
			s.kubectl("apply", "-f", path)
			mc := &v1alpha2.MiniCluster{}
			mc.Name, mc.Namespace = name, s.namespace
			switch {
			case s.get(mc).Spec.Interactive:
				s.await(mc, "started", func(mc *v1alpha2.MiniCluster) bool { return mc.Status.StartTime != nil }) // it ends by itself
			case mc.Labels[v1alpha2.KueueQueueLabel] != "":
				s.await(mc, "waiting for Kueue, which this cluster does not have", func(mc *v1alpha2.MiniCluster) bool {
					admitted := condition(mc, v1alpha2.ConditionAdmitted)
					return admitted.Reason == v1alpha2.ReasonWaitingForQuota && strings.Contains(admitted.Message, "the API server does not have its objects")
				})
			default:
				s.awaitSuccess(mc)
				if mc.Status.Tasks < 1 || *mc.Status.ExitCode != 0 {
					t.Errorf("it ran with %d tasks: exit code %d", mc.Status.Tasks, *mc.Status.ExitCode)
				}
			}
		})
	}
	t.Run("many", func(t *testing.T) {
		t.Parallel()
		s := newSite(t, 0)
		manifests := s.generate("30", "16")
		if again := s.generate("30", "16"); !bytes.Equal(manifests, again) {
			t.Error("the same experiment differs")
		}
		path := filepath.Join(t.TempDir(), "many.yaml")
		quick := regexp.MustCompile(`runtime: \d+s`).ReplaceAll(manifests, []byte("runtime: 500ms"))
		if err := os.WriteFile(path, quick, 0o600); err != nil {
			t.Fatal(err)
		}
		s.kubectl("create", "-f", path)
		var list v1alpha2.MiniClusterList
		if err := env.client.List(s.ctx, &list, client.InNamespace(s.namespace), client.MatchingLabels{"experiment": "many"}); err != nil {
			t.Fatal(err)
		}
		if len(list.Items) != 30 {
			t.Errorf("%d MiniClusters", len(list.Items))
		}
		for i := range list.Items {
			s.awaitSuccess(&list.Items[i])
		}
	})
}

// The API server accepts every object that a page or an example shows.
func TestDocumentedObjects(t *testing.T) {
	t.Parallel()
	newSite(t, 0).shared.TryDocumented(env.Root, false)
}

func (s *site) generate(args ...string) []byte {
	s.t.Helper()
	out, err := exec.Command(filepath.Join(env.Root, "examples", "many", "generate.sh"), args...).Output()
	if err != nil {
		s.t.Fatal(err)
	}
	return out
}

// What people see with kubectl.
func TestKubectl(t *testing.T) {
	t.Parallel()
	s := newSite(t, 3)
	mc := s.create(s.miniCluster("lammps").Size(4).MinSize(2).Tasks(32).PodAnnotation(simulator.Runtime, "1h"))
	s.awaitState(mc, v1alpha2.StateRunning)
	s.await(mc, "seen whole", func(mc *v1alpha2.MiniCluster) bool { return mc.Status.Size == 3 })
	lines := strings.Split(strings.TrimSpace(s.kubectl("get", "mc", "-o", "wide")), "\n")
	if len(lines) != 2 {
		t.Fatalf("kubectl get mc printed %q", lines)
	}
	if header := strings.Fields(lines[0]); !slices.Equal(header, []string{"NAME", "STATE", "SIZE", "WANTED", "TASKS", "NODES", "QUEUE", "AGE", "REASON", "DEADLINE", "PLACEMENT"}) {
		t.Errorf("columns %v", header)
	}
	fields := strings.Fields(lines[1])
	if got := fields[:7]; !slices.Equal(got, []string{"lammps", "Running", "3", "4", "24", "3", s.namespace}) {
		t.Errorf("row %v", got)
	}
	if got := s.kubectl("get", "mc/lammps", "--subresource=scale", "-o", "jsonpath={.spec.replicas} {.status.replicas} {.status.selector}"); got != "4 3 hpa-selector=lammps" {
		t.Errorf("scale is %q", got)
	}
	explained := s.kubectl("explain", "minicluster.spec.elastic.quorumTimeout")
	if words := strings.Join(strings.Fields(explained), " "); !strings.Contains(words, "from its admission") {
		t.Errorf("kubectl explain says %s", explained)
	}
	wait := func(condition string) {
		s.kubectl("wait", "--for=condition="+condition, "--timeout="+timeout.String(), "mc/lammps")
	}
	wait("JobMiniClusterReady")
	wait("JobRunning")
	s.endCommand(mc)
	s.awaitSuccess(mc)
	wait("JobMiniClusterReady") // it was
	wait("JobRunning=false")
	s.kubectl("delete", "mc", "lammps")
	s.awaitGone(mc)
}

// What config/ installs is taken by a cluster, with JobSet of its own and without.
func TestConfig(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"default", "embedded"} {
		out, err := kubectl(t.Context(), "apply", "--server-side", "--dry-run=server", "--force-conflicts", "-k", filepath.Join(env.Root, "config", name))
		if err != nil || strings.Contains(string(out), "Warning") {
			t.Errorf("config/%s: %v\n%s", name, err, out)
		}
	}
}
