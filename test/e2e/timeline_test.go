// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/simulator"
)

// A user with the role edit in one namespace draws what ran there.
func TestTimelineOfUser(t *testing.T) {
	t.Parallel()
	s := newSite(t, 2)
	user := s.namespace + "-editor"
	s.shared.Create(&rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "editor"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	})
	c := s.impersonate(user)
	eventually(t, func() error { return c.List(s.ctx, &v1alpha2.MiniClusterList{}, client.InNamespace(s.namespace)) })
	running := s.createAs(c, s.miniCluster("runs").Size(2).PodAnnotation(simulator.Runtime, untilTold))
	s.awaitState(running, v1alpha2.StateRunning)
	waiting := s.createAs(c, s.miniCluster("waits").Size(2))
	s.awaitState(waiting, v1alpha2.StateQueued)

	path := filepath.Join(t.TempDir(), "nodes.svg")
	var stderr bytes.Buffer
	cmd := exec.CommandContext(s.ctx, filepath.Join(env.Bin, "kubectl-minicluster"), "timeline", path,
		"--kubeconfig="+env.cluster.Kubeconfig(), "--as="+user, "-n", s.namespace)
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %s", err, &stderr)
	}
	if text := stderr.String(); !strings.Contains(text, "you may not list nodes") || strings.Contains(text, "events") {
		t.Errorf("it says %q", text)
	}
	svg, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"runs rank 0 on " + s.nodes[0], "runs rank 1 on " + s.nodes[1], "waits waited from"} {
		if !strings.Contains(string(svg), want) {
			t.Errorf("without %q: %s", want, svg)
		}
	}
}
