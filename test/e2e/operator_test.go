// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
)

var update = flag.Bool("update", false, "write the table of docs/migrate.md")

// operatorExample is a MiniCluster in a checkout of the Flux Operator.
type operatorExample struct {
	name     string // file, and which of its MiniClusters
	document []byte
}

// operatorExamples are all MiniClusters of the checkout that are YAML, also in Markdown.
func operatorExamples(t *testing.T, root string) (examples []operatorExample) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		var documents [][]byte
		switch filepath.Ext(path) {
		case ".yaml", ".yml":
			documents = miniClusterDocuments(text)
		case ".md":
			for _, block := range markdownBlocks.FindAllSubmatch(text, -1) {
				documents = append(documents, miniClusterDocuments(block[1])...)
			}
		}
		name, _ := filepath.Rel(root, path)
		for i, document := range documents {
			example := operatorExample{name, document}
			if len(documents) > 1 {
				example.name = fmt.Sprintf("%s#%d", name, i+1)
			}
			examples = append(examples, example)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return examples
}

var (
	markdownBlocks = regexp.MustCompile("(?s)\n```ya?ml\n(.*?\n)```")
	miniClusters   = regexp.MustCompile(`(?m)^kind: MiniCluster\s*$`)
	elided         = regexp.MustCompile(`(?m)^\s*\.\.\.`) // a part of an example is left out
)

func miniClusterDocuments(text []byte) (documents [][]byte) {
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return documents
		}
		if err == nil && miniClusters.Match(document) && !elided.Match(document) {
			documents = append(documents, document)
		}
	}
}

// TestOperatorExamples applies every MiniCluster of a checkout of the Flux Operator as it is, and runs
// those that need nothing from outside. docs/migrate.md counts the results, and has a table of the
// examples that need a change. They may run on any node, so no other test runs meanwhile.
func TestOperatorExamples(t *testing.T) {
	root := os.Getenv("FLUX_OPERATOR_SRC")
	if root == "" {
		t.Skip("FLUX_OPERATOR_SRC does not name a checkout of the Flux Operator")
	}
	examples := operatorExamples(t, root)
	if len(examples) < 60 {
		t.Fatalf("only %d examples in %s", len(examples), root)
	}
	results := make([]string, len(examples))
	t.Run("all", func(t *testing.T) {
		for i, example := range examples {
			t.Run(example.name, func(t *testing.T) {
				t.Parallel()
				results[i] = newSite(t, 0).playOperatorExample(example)
			})
		}
	})
	if t.Failed() {
		return
	}
	compareTable(t, results)
}

// playOperatorExample returns the row of an example. What the API server and the manager do with it
// has to be what kubectl minicluster migrate says.
func (s *site) playOperatorExample(example operatorExample) string {
	s.t.Helper()
	path := filepath.Join(s.t.TempDir(), "minicluster.yaml")
	if err := os.WriteFile(path, regexp.MustCompile(`(?m)^  namespace: .*\n`).ReplaceAll(example.document, nil), 0o600); err != nil {
		s.t.Fatal(err)
	}
	verdict, todo := judgedBy(s.t, path)
	out, err := kubectl(s.ctx, "-n", s.namespace, "apply", "-f", path)
	unknown := err != nil && strings.Contains(string(out), "unknown field")
	if unknown {
		out, err = kubectl(s.ctx, "-n", s.namespace, "apply", "--validate=false", "-f", path)
	}
	happened := "refused by kubectl or the API server"
	switch {
	case err != nil && verdict != "refused":
		s.t.Fatalf("it %s, but: %s", verdict, out)
	case err == nil:
		happened = s.playMiniCluster(example, verdict == "refused")
	}
	if unknown && verdict == "works as it is" {
		s.t.Errorf("it %s, but has unknown fields", verdict)
	}
	return fmt.Sprintf("| %s | %s | %s | %s |", strings.TrimPrefix(example.name, "examples/"), verdict, todo, happened)
}

// judgedBy returns what kubectl minicluster migrate says.
func judgedBy(t *testing.T, path string) (verdict, todo string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(env.Bin, "kubectl-minicluster"), "migrate", "--check", path)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	lines := strings.Split(string(out), "\n")
	if len(lines) < 2 {
		t.Fatalf("%v: %s%s", err, out, stderr.Bytes())
	}
	columns := regexp.MustCompile(`\s{3,}`).Split(lines[1], -1)
	if want := columns[2] == "works as it is"; (err == nil) != want {
		t.Errorf("%q, but %v", lines[1], err)
	}
	return columns[2], strings.Join(columns[3:], " ")
}

// playMiniCluster waits for the end of an example, or as far as it gets without what it needs from
// outside, and returns how far it got.
func (s *site) playMiniCluster(example operatorExample, refused bool) string {
	s.t.Helper()
	var mc v1alpha2.MiniCluster
	if err := yaml.Unmarshal(example.document, &mc); err != nil {
		s.t.Fatal(err)
	}
	mc.Namespace = s.namespace
	cleanup, interactive := mc.Spec.Cleanup, mc.Spec.Interactive || flux(&mc).Command == ""
	needs := outside(&mc)
	accepted := func(want metav1.ConditionStatus) func(*v1alpha2.MiniCluster) bool {
		return func(mc *v1alpha2.MiniCluster) bool { return condition(mc, v1alpha2.ConditionAccepted).Status == want }
	}
	switch {
	case refused:
		s.await(&mc, "refused", accepted(metav1.ConditionFalse))
		return "refused by the manager"
	case len(needs) > 0:
		s.await(&mc, "accepted", accepted(metav1.ConditionTrue))
		return "accepted; needs " + strings.Join(needs, ", ")
	case interactive:
		s.awaitState(&mc, v1alpha2.StateRunning)
		return "runs until it is deleted"
	case cleanup:
		s.awaitGone(&mc)
		return "ran to its end, and was deleted"
	}
	s.awaitSuccess(&mc)
	return "ran to its end"
}

func flux(mc *v1alpha2.MiniCluster) *v1alpha2.MiniClusterContainer {
	for i := range mc.Spec.Containers {
		if c := &mc.Spec.Containers[i]; c.RunFlux || len(mc.Spec.Containers) == 1 {
			return c
		}
	}
	return &mc.Spec.Containers[0]
}

// outside is what an example needs that neither it nor simulated nodes have.
func outside(mc *v1alpha2.MiniCluster) (needs []string) {
	for _, c := range slices.Concat(mc.Spec.Containers, mc.Spec.Services) {
		for _, volume := range c.Volumes {
			if volume.ClaimName != "" {
				needs = append(needs, "PersistentVolumeClaim "+volume.ClaimName)
			}
		}
		for name, amount := range c.Resources.Limits {
			switch name {
			case corev1.ResourceCPU, corev1.ResourceMemory:
				if most := map[corev1.ResourceName]string{corev1.ResourceCPU: "8", corev1.ResourceMemory: "32Gi"}[name]; amount.Cmp(*quantity(most)) > 0 {
					needs = append(needs, fmt.Sprintf("nodes with %s %s", amount.String(), name))
				}
			default:
				needs = append(needs, string(name))
			}
		}
	}
	if account := mc.Spec.Pod.ServiceAccountName; account != "" {
		needs = append(needs, "ServiceAccount "+account)
	}
	slices.Sort(needs)
	return slices.Compact(needs)
}

const (
	tableBegin = "<!-- TestOperatorExamples writes the table. -->\n\n"
	tableHead  = "%d of %d examples work as they are. The rest:\n\n| example | verdict | to do, or why it is refused | on simulated nodes |\n|---|---|---|---|\n"
	tableEnd   = "\n<!-- The table ends. -->"
)

// compareTable compares the rows with the table of docs/migrate.md, or writes the table.
func compareTable(t *testing.T, rows []string) {
	t.Helper()
	all := len(rows)
	slices.Sort(rows)
	rows = slices.DeleteFunc(rows, func(row string) bool { return strings.Contains(row, " | works as it is | ") })
	want := fmt.Sprintf(tableHead, all-len(rows), all) + strings.Join(rows, "\n") + "\n"
	path := filepath.Join(env.Root, "docs", "migrate.md")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), tableBegin)
	table, after, ended := strings.Cut(rest, tableEnd)
	if !found || !ended {
		t.Fatalf("%s has no place for the table", path)
	}
	if *update {
		if err := os.WriteFile(path, []byte(before+tableBegin+want+tableEnd+after), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(table, want); diff != "" {
		t.Errorf("the table of docs/migrate.md differs; -update writes it:\n%s", diff)
	}
}
