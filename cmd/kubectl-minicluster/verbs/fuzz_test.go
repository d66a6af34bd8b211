// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"bytes"
	"math/big"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/cmd/kubectl-minicluster/access"
)

// A shell takes a command apart into the words that were joined.
func FuzzJoin(f *testing.F) {
	f.Add("a\x00my file\x00$x\x00`id`")
	f.Add("it's\x00\x00\n\\\x00~root\x00*\x00#x\x00!!")
	f.Add("{a,b}\x00-n\x00%s\x00A=~\x00\xff\u00e9")
	f.Fuzz(func(t *testing.T, text string) {
		words := strings.Split(text, "\x00")
		command := join(append([]string{"printf", `%s\0`}, words...))
		for _, shell := range []string{"sh", "bash"} {
			out, err := exec.CommandContext(t.Context(), shell, "-c", command).CombinedOutput()
			if got := string(out); err != nil || got != text+"\x00" {
				t.Errorf("%s takes %s apart into %q, %v; want %q", shell, command, got, err, text)
			}
		}
	})
}

// A script is refused, or is a MiniCluster whose command is the script, with a name and numbers that the API server takes.
func FuzzScript(f *testing.F) {
	f.Add(slurmScript)
	f.Add("#!/bin/sh\n#FLUX: -N2 --env=A=b -t 1h --cwd='/x y' # c\n# flux: -x\necho \\\n")
	f.Add("#!/bin/bash\n#SBATCH --mem=1e-99999999 --gres=gpu:99999999999999999999 -c 2147483647 -n 2147483647 -t 99999-99\n")
	f.Add("#!/bin/sh\necho \x80\xae")
	f.Add("#!sh \u202e0")
	f.Add("#!/bin/bash\n#SBATCH -J \x1b[2J -D \"\u202e\" -\xff=' \n")
	f.Fuzz(func(t *testing.T, text string) {
		if !isScript([]byte(text)) {
			return
		}
		s, out := session(text)
		var told bytes.Buffer
		s.ErrOut, s.Flags.Context.Namespace = access.Plain{To: &told}, "here"
		cmd := newSubmit(s, func(*v1alpha2.MiniCluster) error { return nil })
		cmd.SetArgs([]string{"--dry-run=client", "--image=lammps", "-f", "-"})
		if cmd.Execute() != nil {
			return
		}
		mc := &v1alpha2.MiniCluster{}
		if err := yaml.UnmarshalStrict(out.Bytes(), mc); err != nil {
			t.Fatalf("%v in %s", err, out)
		}
		c, spec := mc.Spec.FluxContainer(), &mc.Spec
		if want := access.PlainText(strings.ReplaceAll(text, `\`, `\\`)); c.Commands.Script != want { // as it is shown
			t.Errorf("the script is %q, want %q", c.Commands.Script, want)
		}
		if wrong := validation.IsDNS1035Label(mc.GenerateName + "x"); wrong != nil {
			t.Errorf("the name begins with %q: %v", mc.GenerateName, wrong)
		}
		if spec.Size < 0 || spec.MinSize > spec.Size || spec.DeadlineSeconds != nil && *spec.DeadlineSeconds < 1 || c.Resources.Limits.Cpu().Sign() < 0 {
			t.Errorf("%+v", spec)
		}
		if told.Len() > 3*len(text)+1000 {
			t.Errorf("%d bytes are told of %d", told.Len(), len(text))
		}
	})
}

// clockParts are the numbers of a limit that is a clock.
var clockParts = regexp.MustCompile(`\d+`)

// A limit that is a clock is exactly as long as its numbers say, or is refused, and is read again as it is shown.
func FuzzLimit(f *testing.F) {
	for _, text := range []string{"20", "2d", "1-2:3:4", "0:0:1", "1:2:3", "99999-9999999:9999999:9999999", "9999999:00:00", "1h30m", "2562047h48m", "-1ns"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var l, again limit
		if l.Set(text) != nil {
			return
		}
		if err := again.Set(l.String()); err != nil || l != again || time.Duration(l) < time.Second {
			t.Errorf("%q is %s, and read again as %s: %v", text, &l, &again, err)
		}
		parts := clock.FindStringSubmatch(text)
		if _, err := time.ParseDuration(text); err == nil || parts == nil {
			return
		}
		want, units := new(big.Int), []int64{24 * 3600, 3600, 60, 1}
		if !strings.ContainsAny(text, "d-") {
			units = units[2-strings.Count(text, ":")/2:] // H:M:S, M:S or M
		}
		for i, part := range clockParts.FindAllString(text, -1) {
			n, _ := new(big.Int).SetString(part, 10)
			want.Add(want, n.Mul(n, big.NewInt(units[i]*int64(time.Second))))
		}
		if want.Cmp(big.NewInt(int64(l))) != 0 {
			t.Errorf("%q is %s, want %s", text, &l, want)
		}
	})
}
