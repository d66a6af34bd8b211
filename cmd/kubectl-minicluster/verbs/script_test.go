// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"bytes"
	"strings"
	"testing"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
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

// A script for sbatch or flux batch is submitted as it is, and what has no meaning here is named.
func TestSubmitScript(t *testing.T) {
	submit := func(text string, args ...string) (mc *v1alpha2.MiniCluster, told string) {
		t.Helper()
		s, out := session(text)
		errOut := &bytes.Buffer{}
		s.ErrOut, *s.Flags.Namespace = errOut, "here"
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
	mc, told := submit(slurmScript, "-q", "debug")
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

	mc, told = submit("#!/bin/sh\n#FLUX: -N4 --queue=research\n# flux: -t 20m --output=out\nflux run -N4 lmp # not srun\n", "--name=lmp")
	if mc.Name != "lmp" || mc.Spec.Size != 4 || mc.Spec.Queue != "research" || ptr.Deref(mc.Spec.DeadlineSeconds, 0) != 1200 || !strings.Contains(told, "here: --output=out\n") {
		t.Errorf("%+v: %s", mc, told)
	}
	if _, err := submitted("#!/bin/sh\n#SBATCH --time=soon\n", "--image=x", "-f", "-"); err == nil || !strings.Contains(err.Error(), "-: --time=soon: ") {
		t.Errorf("got %v", err)
	}
}
