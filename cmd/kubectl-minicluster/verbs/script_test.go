// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/cmd/kubectl-minicluster/access"
)

const slurmScript = `#!/bin/bash
#SBATCH --job-name=Water_1 -N 2-4   # a comment
#SBATCH --ntasks 16
#SBATCH --ntasks-per-node=4 -c2 --exclusive
#SBATCH --time=1:30:00 --partition="research" --mem=16000 --gres=gpu:a100:2
#SBATCH --mail-type=END -o out.txt --gres=craynetwork:1

module load lammps
srun lmp -in "$1" \\
  -nocite
#SBATCH --nodes=99
`

// submitScript submits a script, and returns the MiniCluster, and what is told beside it.
func submitScript(t *testing.T, text string, args ...string) (mc *v1alpha2.MiniCluster, told string) {
	t.Helper()
	s, out := session(text)
	errOut := &bytes.Buffer{}
	s.ErrOut, s.Flags.Context.Namespace = errOut, "here"
	cmd := newSubmit(s, func(*v1alpha2.MiniCluster) error { return nil })
	cmd.SetArgs(append([]string{"--dry-run=client", "--image=lammps", "-f", "-"}, args...))
	mc = &v1alpha2.MiniCluster{}
	if err := cmd.Execute(); err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(out.Bytes(), mc); err != nil {
		t.Fatal(err)
	}
	return mc, errOut.String()
}

// A script for sbatch or flux batch is submitted as it is, and what has no meaning here is named.
func TestSubmitScript(t *testing.T) {
	mc, told := submitScript(t, slurmScript, "-q", "debug")
	c, spec := mc.Spec.FluxContainer(), &mc.Spec
	limits := c.Resources.Limits
	if mc.GenerateName != "water-" || spec.Size != 4 || spec.MinSize != 2 || ptr.Deref(spec.Tasks, 0) != 16 || ptr.Deref(spec.DeadlineSeconds, 0) != 5400 || spec.Queue != "debug" ||
		!spec.Placement.Exclusive || !c.Launcher || limits.Cpu().String() != "8" || limits.Memory().String() != "16000Mi" || limits.Name(gpus, "").String() != "2" {
		t.Errorf("%+v, %v", mc, limits)
	}
	if want := strings.ReplaceAll(slurmScript, `\`, `\\`); c.Commands.Script != want || c.Command != "" {
		t.Errorf("the script is %q", c.Commands.Script)
	}
	for _, want := range []string{"These options in - have no meaning here: --mail-type=END -o out.txt --gres=craynetwork:1\n", "- calls srun, which a MiniCluster does not have: use flux run."} {
		if !strings.Contains(told, want) {
			t.Errorf("%q is not in %s", want, told)
		}
	}

	mc, told = submitScript(t, "#!/bin/sh\n#FLUX: -N4 --queue=research\n# flux: -t 20m --output=out\nflux run -N4 lmp # not srun\n", "--name=lmp")
	if mc.Name != "lmp" || mc.Spec.Size != 4 || mc.Spec.Queue != "research" || ptr.Deref(mc.Spec.DeadlineSeconds, 0) != 1200 || !strings.Contains(told, "here: --output=out\n") {
		t.Errorf("%+v: %s", mc, told)
	}
	if _, err := submitted("#!/bin/sh\n#SBATCH --time=soon\n", "--image=x", "-f", "-"); err == nil || !strings.Contains(err.Error(), "-: --time=soon: ") {
		t.Errorf("got %v", err)
	}
}

// A script that is several jobs is refused. Variables of Slurm that it reads are named.
func TestScriptOfSeveralJobs(t *testing.T) {
	for line, want := range map[string]string{
		"#SBATCH --array=1-10%2": "--array=1-10%2 runs the script several times", "#SBATCH -N 2 -a 1-10": "several times", "#flux: --cc=1-10": "several times",
	} {
		out, err := submitted("#!/bin/bash\n"+line+"\nflux run lmp\n", "--image=x", "-f", "-")
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "nothing was sent") || out != nil {
			t.Errorf("%s: %v, %v", line, out, err)
		}
	}
	_, told := submitScript(t, "#!/bin/bash\n#SBATCH -N 2\nflux run -n $SLURM_NTASKS lmp -in in.${SLURM_JOB_ID} $SLURM_NTASKS\n")
	if want := "- reads SLURM_JOB_ID, SLURM_NTASKS, which a MiniCluster does not set"; !strings.Contains(told, want) {
		t.Errorf("%q is not in %q", want, told)
	}
}

// A directive is taken apart as a shell does, and what has no meaning here is named.
func TestDirectives(t *testing.T) {
	value := func(mc *v1alpha2.MiniCluster, name corev1.ResourceName) string {
		return mc.Spec.FluxContainer().Resources.Limits.Name(name, "").String()
	}
	for line, tc := range map[string]struct {
		of      func(*v1alpha2.MiniCluster) string
		want    string
		ignored string
	}{
		`#SBATCH --chdir="/my data" stray # --nodes=9`:        {func(mc *v1alpha2.MiniCluster) string { return mc.Spec.FluxContainer().WorkingDir }, "/my data", "stray"},
		`#SBATCH first -D '/a#b"c'#-N9`:                       {func(mc *v1alpha2.MiniCluster) string { return mc.Spec.FluxContainer().WorkingDir }, `/a#b"c`, "first"},
		`#SBATCH --partition= research --exclusive user`:      {func(mc *v1alpha2.MiniCluster) string { return mc.Spec.Queue }, "", "research user"},
		`#SBATCH -J "'x'"`:                                    {func(mc *v1alpha2.MiniCluster) string { return mc.GenerateName }, "x-", ""},
		"#SBATCH --gres=craynetwork:1,gpu:a100:2,lustre:many": {func(mc *v1alpha2.MiniCluster) string { return value(mc, gpus) }, "2", "--gres=craynetwork:1,lustre:many"},
		"#SBATCH --gres gpu":                                  {func(mc *v1alpha2.MiniCluster) string { return value(mc, gpus) }, "1", ""},
		"#SBATCH --gres=gpu:1g.5gb":                           {func(mc *v1alpha2.MiniCluster) string { return value(mc, gpus) }, "1", ""},
		"#SBATCH --gres=gpu:a100:few":                         {func(mc *v1alpha2.MiniCluster) string { return value(mc, gpus) }, "0", "--gres=gpu:a100:few"},
		"#SBATCH --gpus-per-node=volta:3,kepler:5":            {func(mc *v1alpha2.MiniCluster) string { return value(mc, gpus) }, "3", "--gpus-per-node=kepler:5"},
		"#SBATCH --gpus-per-node 4":                           {func(mc *v1alpha2.MiniCluster) string { return value(mc, gpus) }, "4", ""},
		"#SBATCH --mem=0":                                     {func(mc *v1alpha2.MiniCluster) string { return value(mc, "memory") }, "0", "--mem=0"},
		"#SBATCH --mem 00G":                                   {func(mc *v1alpha2.MiniCluster) string { return value(mc, "memory") }, "0", "--mem 00G"},
		"#SBATCH --mem=20g":                                   {func(mc *v1alpha2.MiniCluster) string { return value(mc, "memory") }, "20Gi", ""},
		"#SBATCH --mem=512mb":                                 {func(mc *v1alpha2.MiniCluster) string { return value(mc, "memory") }, "512Mi", ""},
		"#FLUX: --env=-LD_* --env=HOME --env 'A=b c'":         {func(mc *v1alpha2.MiniCluster) string { return mc.Spec.FluxContainer().Environment["A"] }, "b c", "--env=-LD_* --env=HOME"},
	} {
		mc, told := submitScript(t, "#!/bin/bash\n"+line+"\nlmp\n")
		_, ignored, _ := strings.Cut(told, "have no meaning here: ")
		ignored, _, _ = strings.Cut(ignored, "\n")
		if !strings.Contains(told, "have no meaning") {
			ignored = ""
		}
		if got := tc.of(mc); got != tc.want || ignored != tc.ignored || mc.Spec.Size > 1 {
			t.Errorf("%s: got %q, ignored %q, %d nodes", line, got, ignored, mc.Spec.Size)
		}
	}
	if _, err := submitted("#!/bin/sh\n#SBATCH -N2 -J \"a b\n", "--image=x", "-f", "-"); err == nil || !strings.Contains(err.Error(), `a quote has no end: "a b`) {
		t.Errorf("got %v", err)
	}
}

// Tasks of the command line, in whichever way, stand in place of those of the script.
func TestScriptTasks(t *testing.T) {
	for flag, want := range map[string]int32{"-n6": 6, "--ntasks-per-node=5": 10} {
		for _, line := range []string{"-n8", "--ntasks-per-node=4", "-n8 --ntasks-per-node=4"} {
			if mc, _ := submitScript(t, "#!/bin/sh\n#SBATCH -N2 "+line+"\n", flag); ptr.Deref(mc.Spec.Tasks, 0) != want {
				t.Errorf("%s, %s: %d tasks", flag, line, *mc.Spec.Tasks)
			}
		}
	}
}

// Bash runs a script, so a script for another interpreter is refused.
func TestInterpreter(t *testing.T) {
	for text, good := range map[string]bool{
		"#!/bin/sh": true, "#!/bin/bash -l\n": true, "#! /usr/bin/bash\n": true, "#!/usr/bin/env bash\n": true, "#!/usr/bin/env -S A=b bash -e\n": true,
		"#!/usr/bin/env python3\n": false, "#!/usr/bin/python3\n": false, "#!/bin/zsh\n": false, "#!/bin/csh -f /bin/sh\n": false, "#!/bin/bash.old\n": false, "#!\n": false, "#!/usr/bin/env\nbash": false,
		"#!/bin/bash\r\n": false, "#!/bin/bash\necho \x80\n": false, "#!/bin/bash\necho a\r\n": false,
	} {
		_, err := submitted(text, "--image=x", "-f", "-")
		exit := new(access.ExitError)
		if (err == nil) != good || err != nil && (!errors.As(err, &exit) || exit.Code != access.CodeUsage) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
