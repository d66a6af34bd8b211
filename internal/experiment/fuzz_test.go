// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package experiment

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"
)

// A file of an experiment is refused, or has a bounded number of runs, and is the same experiment when it is written and
// read again.
func FuzzRead(f *testing.F) {
	f.Add(study)
	f.Add(strings.Replace(study, "repetitions: 3", "cases: [{y: 1.50}, {y: true}]\norder: shuffled\nlimits: {wait: 1h, perMinute: .5}", 1))
	f.Add(strings.Replace(study, "repetitions: 3", "repetitions: 1000000000000", 1))
	f.Add("a: &a [x,x,x,x]\nb: &b [*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b]\nd: [*c,*c,*c,*c]\n")
	f.Fuzz(func(t *testing.T, text string) {
		d, err := Read([]byte(text))
		if err != nil {
			return
		}
		runs, err := d.Runs()
		if err != nil || len(runs) > mostRuns {
			t.Fatalf("%d runs, %v", len(runs), err)
		}
		written, err := yaml.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		again, err := Read(written)
		if err != nil {
			t.Fatalf("%v in %s", err, written)
		}
		if same, err := again.Runs(); err != nil || !reflect.DeepEqual(runs, same) {
			t.Errorf("%v: the runs are %+v, and then %+v", err, runs, same)
		}
	})
}

// The figures of a log are finite numbers, whatever a filter or an expression finds in it, and an error is short.
func FuzzExtract(f *testing.F) {
	f.Add("Loop time of 1.5 on 4\n", `Loop time of (\S+)`, ".a", uint8(0))
	f.Add("{\"a\": 1e308}\n{\"a\": \"1e308\"}\n[\n[1,\n", `a": "?([^"}]*)`, ".a, ..", uint8(4))
	f.Add("{}\n", "(x*)*", "def f: f; f", uint8(1))
	f.Add("[1]\n", "()", `"x" * 1e9, env, $ENV, halt, now, input_filename, (tojson|fromjson)`, uint8(2))
	takes := []Take{TakeLast, TakeFirst, TakeMin, TakeMax, TakeSum, TakeMean}
	f.Fuzz(func(t *testing.T, log, pattern, filter string, take uint8) {
		for _, figure := range []Figure{{Name: "a", Regexp: pattern}, {Name: "b", JQ: filter}} {
			figure.Take = takes[int(take)%len(takes)]
			var p problems
			if figure.check(&p, "figure"); len(p) > 0 {
				continue
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			found, err := (&Definition{Figures: []Figure{figure}}).Extract(ctx, []byte(log))
			cancel()
			for name, value := range found {
				if math.IsNaN(value) || math.IsInf(value, 0) {
					t.Errorf("%s is %g", name, value)
				}
			}
			if err != nil && len(err.Error()) > 2*mostFilter+1000 {
				t.Errorf("the error has %d bytes: %.200s", len(err.Error()), err)
			}
		}
	})
}

// Records are read or refused, and are the same when they are written and read again.
func FuzzParseLines(f *testing.F) {
	f.Add("{\"name\":\"a\",\"wanted\":1,\"figures\":{\"x\":1e300}}\n{\"name\":\"b\"}\n{\"na")
	f.Add("{\"name\":\"\\u0000\\ud800\",\"submitted\":\"2026-03-01T12:00:00.5Z\",\"nodes\":\"n[0-99999]\",\"size\":100000,\"admitted\":\"0001-01-01T00:00:00Z\"}\n")
	f.Fuzz(func(t *testing.T, text string) {
		records, whole, err := ParseLines([]byte(text))
		if err != nil {
			return
		}
		if whole > len(text) {
			t.Errorf("%d of %d bytes", whole, len(text))
		}
		var lines []byte
		for _, r := range records {
			line, err := r.Line()
			if err != nil {
				t.Fatal(err)
			}
			if s := r.Story(); len(s.Attempts) > 0 && len(s.Attempts[len(s.Attempts)-1].Stays) > mostNodes {
				t.Error("a run has too many nodes")
			}
			r.HostageTime()
			lines = append(lines, line...)
		}
		again, _, err := ParseLines(lines)
		if err != nil {
			t.Fatal(err)
		}
		one, _ := json.Marshal(records)
		two, _ := json.Marshal(again)
		if !bytes.Equal(one, two) {
			t.Errorf("%s becomes %s", one, two)
		}
	})
}
