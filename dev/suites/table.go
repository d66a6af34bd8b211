// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package main

// suite is one that runs only if what it depends on has changed.
type suite struct {
	// target is the target of the Makefile that runs the suite.
	target string
	// module is the directory of the module with the packages; "" if it is that of the checkout.
	module string
	tags   string
	// packages are those with the tests.
	packages []string
	// programs are packages of the checkout whose programs the suite runs.
	programs []string
	// idle are directories whose packages are in these programs, and have nothing to do in the suite, such as what talks
	// to Kueue where there is no Kueue. Other suites test that programs with these packages start.
	idle []string
	// files are further files of the checkout: patterns of git.
	files []string
	// variables are environment variables, and commands tell the versions of programs of the machine. A program that is
	// missing has no version.
	variables []string
	commands  [][]string
}

// controlPlane are the files that choose the programs of a cluster's control plane.
var controlPlane = []string{"hack/controlplane/go.mod", "hack/controlplane/go.sum", "hack/controlplane/v1.36"}

// What has nothing to do without Kueue, without an autoscaler, and without a browser.
var (
	ofKueue      = []string{"controllers/kueue", "internal/kueue"}
	ofAutoscaler = []string{"controllers/scaleup", "internal/scaleup"}
	ofPage       = []string{"controllers/dashboard", "internal/dashboard"}
)

// suites are in the order in which they are due: the longest is first.
var suites = []suite{
	{
		target: "e2e-real", tags: "real", packages: []string{"./test/e2e-real"},
		programs: []string{"./cmd/manager", "./cmd/kubectl-minicluster", "./cmd/localcluster", "./test/fakeflux"},
		idle:     join(ofKueue, ofAutoscaler, ofPage),
		files: join(controlPlane, []string{
			"hack/controlplane/coredns", "hack/images", "hack/release", "config", "examples/real", "Dockerfile",
		}),
		variables: []string{"FLUX_ROOT"},
		commands: [][]string{
			{"uname", "-rm"},
			{"containerd", "--version"},
			{"runc", "--version"},
			{"sh", "-c", "${FLUX_ROOT:-/opt/flux}/bin/flux version"},
		},
	},
	{
		target: "e2e-kueue", packages: []string{"./test/e2e-kueue"}, programs: []string{"./cmd/manager"},
		idle:  join(ofAutoscaler, ofPage),
		files: join(controlPlane, []string{"hack/controlplane/kueue", "config", "examples/kueue"}),
	},
	{
		target: "e2e-autoscale", packages: []string{"./test/e2e-autoscale"}, programs: []string{"./cmd/manager"},
		idle:  join(ofKueue, ofPage),
		files: join(controlPlane, []string{"hack/controlplane/karpenter", "config", "examples/autoscaling"}),
	},
	{
		// What Kueue does without flux-elastic, and that it accepts the objects of pages.
		target: "e2e-kueue-facts",
		files: join(controlPlane, []string{
			"hack/controlplane/kueue", "test/e2e-kueue/main_test.go", "test/e2e-kueue/site_test.go", "test/e2e-kueue/kueue_test.go",
			"test/e2e-kueue/examples_test.go", "test/docs", "test/harness", "dev/localcluster", "docs", "examples", "*.md",
		}),
	},
	{
		// The programs for development, and that gangs do not clog a cluster, which is tested nowhere else at this size.
		target: "e2e-tools", packages: []string{"./test/e2e-tools"}, programs: []string{"./cmd/localcluster"},
		files: join(controlPlane, []string{"examples", "config", "controllers/scheduler"}),
	},
	{
		target: "test-python", packages: []string{"./test/e2e-python"}, programs: []string{"./cmd/manager"},
		idle:      join(ofKueue, ofAutoscaler, ofPage),
		files:     join(controlPlane, []string{"sdk/python", "config", "examples/python"}),
		variables: []string{"PYTHON", "FLUX_OPERATOR_SRC"},
		commands:  [][]string{{"sh", "-c", "${PYTHON:-/usr/bin/python3} -c 'import kubernetes, pytest, sys; print(kubernetes.__version__, pytest.__version__, sys.version)'"}},
	},
	{
		target: "e2e-upgrade", packages: []string{"./test/e2e"}, programs: []string{"./cmd/manager"},
		idle:      join(ofKueue, ofAutoscaler, ofPage),
		files:     join(controlPlane, []string{"config"}),
		variables: []string{"UPGRADE_FROM"},
		commands:  [][]string{{"git", "describe", "--tags", "--abbrev=0", "HEAD^"}}, // from which version
	},
	{
		// The versions alone: what else changes is tested with the newest Kubernetes.
		target: "e2e-older", files: join(controlPlane, []string{"go.mod"}),
	},
	{
		// What matches jobspecs, and what lets Fluxion's own library choose nodes: the default manager has neither.
		target: "test-fluxion", module: "fluxion", packages: []string{"./..."}, files: []string{"fluxion"},
		idle:      []string{"api", "cmd", "controllers", "internal", "pkg/elastic"}, // they are in manager-fluxion
		variables: []string{"FLUXION_LIBRARY", "RESOURCE_QUERY"},
	},
	{
		target: "test-browser", module: "hack/browser", packages: []string{"."}, programs: []string{"./dev/stage/serve"},
		variables: []string{"CHROMIUM"},
		commands:  [][]string{{"sh", "-c", "for name in chromium chromium-browser google-chrome; do $name --version; done"}},
	},
}

func join(lists ...[]string) (all []string) {
	for _, list := range lists {
		all = append(all, list...)
	}
	return all
}
