// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package house checks rules of the code that no linter has.
package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// The largest sizes of a type: the fields of a struct, its methods, and the methods of an interface.
const (
	mostFields    = 20
	mostMethods   = 30
	mostInterface = 6
)

// Why a type is larger.
const (
	ofAPI     = "each field is one of the API"
	ofFlags   = "each field is a flag"
	ofFluxion = "follows the type of Fluxion whose results it has to repeat"
	ofValues  = "only values, which are read together"
	oneGraph  = "each of these methods changes the graph or reads it together with the accounts"
	ofRules   = "the rules of life read all that was observed; a method is a question that several rules ask"
	toSplit   = "still to be split into parts"
)

// larger are the types that are larger, and the sizes that they may have. A type that has become smaller is not listed any
// more.
var larger = map[string]struct {
	most int
	why  string
}{
	"api/v1alpha2.Admission: fields":                  {27, ofAPI},
	"api/v1alpha2.FluxSpec: fields":                   {21, ofAPI},
	"api/v1alpha2.MiniClusterContainer: fields":       {21, ofAPI},
	"api/v1alpha2.MiniClusterSpec: fields":            {24, ofAPI},
	"api/v1alpha2.MiniClusterStatus: fields":          {24, ofAPI},
	"cmd/kubectl-minicluster/verbs.submitter: fields": {25, ofFlags},
	"cmd/manager/options.Options: fields":             {30, ofFlags},
	"fluxion/traverser.Matcher: methods":              {56, ofFluxion},
	"fluxion/traverser.search: methods":               {37, ofFluxion},
	"fluxion/traverser.vertex: fields":                {23, ofFluxion},
	"internal/dashboard.MiniCluster: fields":          {23, ofValues},
	"internal/experiment.Record: fields":              {25, ofValues},
	"internal/ledger.Ledger: methods":                 {67, oneGraph},
	"pkg/elastic/life.Broker: fields":                 {29, ofRules},
	"pkg/elastic/life.Observation: fields":            {37, ofRules},
	"pkg/elastic/life.Observation: methods":           {90, ofRules},
	"pkg/elastic/life.Policy: fields":                 {22, ofRules},
	"pkg/elastic/queue.Gang: fields":                  {27, ofValues},
	"pkg/elastic/queue.cycle: methods":                {55, toSplit},
	"pkg/elastic/queue.entry: fields":                 {29, toSplit},
	"pkg/fluxion.Graph: methods":                      {42, toSplit},
	"pkg/fluxion.gangMatch: methods":                  {35, toSplit},
}

// The types of what is in production are small: one object has one idea.
func TestSizesOfTypes(t *testing.T) {
	sizes := map[string]int{}
	for _, dir := range []string{"api", "cmd", "controllers", "fluxion", "internal", "pkg"} {
		if err := filepath.WalkDir(filepath.Join("..", "..", dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.HasPrefix(d.Name(), "zz_generated") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err == nil {
				count(sizes, filepath.ToSlash(filepath.Dir(path))[len("../../"):], file)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	if len(sizes) < 500 {
		t.Errorf("only %d sizes were found", len(sizes))
	}
	limits := map[string]int{"fields": mostFields, "methods": mostMethods, "methods of an interface": mostInterface}
	for what, size := range sizes {
		_, kind, _ := strings.Cut(what, ": ")
		may, listed := larger[what]
		switch most := max(limits[kind], may.most); {
		case size > most:
			t.Errorf("%s: %d, may be %d; %s", what, size, most, may.why)
		case listed && size <= limits[kind]:
			t.Errorf("%s: %d, which need not be listed", what, size)
		}
	}
	for what := range larger {
		if sizes[what] == 0 {
			t.Errorf("%s: there is no such type", what)
		}
	}
}

// count adds the sizes of the types of a file, each by the type and what is counted.
func count(sizes map[string]int, dir string, file *ast.File) {
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Recv != nil {
				sizes[dir+"."+nameOf(d.Recv.List[0].Type)+": methods"]++
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				made, ok := spec.(*ast.TypeSpec)
				if !ok {
					continue
				}
				switch of := made.Type.(type) {
				case *ast.StructType:
					sizes[dir+"."+made.Name.Name+": fields"] = of.Fields.NumFields()
				case *ast.InterfaceType:
					sizes[dir+"."+made.Name.Name+": methods of an interface"] = of.Methods.NumFields()
				}
			}
		}
	}
}

// nameOf is the name of the type of a receiver.
func nameOf(receiver ast.Expr) string {
	switch r := receiver.(type) {
	case *ast.StarExpr:
		return nameOf(r.X)
	case *ast.IndexExpr:
		return nameOf(r.X)
	case *ast.Ident:
		return r.Name
	}
	return "?"
}
