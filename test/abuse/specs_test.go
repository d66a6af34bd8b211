// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package abuse

import (
	"encoding/json"
	"regexp"
	"testing"

	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/internal/jobset"
	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/internal/weight"
)

// exponents are those of numbers for which the parser of quantities needs minutes. The schema refuses such specs.
var exponents = regexp.MustCompile(`[eE][-+]?[0-9]{3}`)

// Any spec, also one that the schema refuses, is refused or built, and is what a queue and the ledger can count.
func FuzzSpec(f *testing.F) {
	f.Add(`{"size":-1,"minSize":2147483647,"tasks":-2147483648,"containers":[{"resources":{"limits":{"cpu":"-1"}}}]}`)
	f.Add(`{"size":4,"containers":[{"command":"a"},{"runFlux":true,"volumes":{"":{"emptyDir":true,"emptyDirSizeLimit":"x"}}}],"services":[{}],"elastic":{"sizes":{"operator":"^","operand":0}}}`)
	f.Add(`{"deadlineSeconds":9223372036854775807,"elastic":{"startTimeout":"-1ns","checkpoint":{},"recreate":{"backoffBase":"0s"},"tasks":{"constraint":"Cube"}},"flux":{"bursting":{"hostlist":"a[0-","clusters":[{}]}}}`)
	whole, err := json.Marshal(fixture.MiniCluster("lmp").Size(4).MinSize(2).CPU("8").Defaulted().Spec)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(whole))
	f.Fuzz(func(t *testing.T, text string) {
		mc := fixture.MiniCluster("lmp").Obj()
		if exponents.MatchString(text) || json.Unmarshal([]byte(text), &mc.Spec) != nil || mc.Spec.Size > mostBrokers || mc.Spec.MaxSize > mostBrokers {
			return
		}
		mc.Default()
		weight.Excess(mc)
		if build(mc) != nil {
			return
		}
		pod, err := jobset.Pod(mc)
		if err != nil {
			t.Fatal(err)
		}
		for name, amount := range state.Requests(pod) {
			if amount < 0 {
				t.Errorf("it requests %d %s", amount, name)
			}
		}
		state.Request(mc, pod, nil, nil)
		state.Gang(mc, pod, nil)
	})
}
