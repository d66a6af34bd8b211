// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
)

// group is a declaration of constants.
type group struct {
	file, comment string
	constants     []constant
}

// constant is one whose value is a string.
type constant struct{ name, value, comment string }

// source is what the pages need of some packages.
type source struct {
	groups []group
	// values are those of exported constants by name, types the comments of types.
	values, types map[string]string
}

// parseGo reads the packages in directories and below, without tests. Constants of the first directory
// may be used in the others.
func parseGo(root string, directories ...string) (*source, error) {
	c := &source{values: map[string]string{}, types: map[string]string{}}
	for _, directory := range directories {
		err := filepath.WalkDir(filepath.Join(root, directory), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				return fmt.Errorf("parsing the code: %w", err)
			}
			for _, declaration := range file.Decls {
				if general, ok := declaration.(*ast.GenDecl); ok {
					c.add(path, general)
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return c, nil
}

func (c *source) add(path string, declaration *ast.GenDecl) {
	g := group{file: path, comment: oneLine(declaration.Doc.Text())}
	for _, spec := range declaration.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			c.types[spec.Name.Name] = oneLine(declaration.Doc.Text())
		case *ast.ValueSpec:
			if declaration.Tok != token.CONST || len(spec.Values) != 1 {
				continue
			}
			value, ok := c.evaluate(spec.Values[0])
			if !ok {
				continue
			}
			name, comment := spec.Names[0].Name, oneLine(spec.Doc.Text())
			if !declaration.Lparen.IsValid() {
				comment = g.comment
			}
			if comment != "" && ast.IsExported(name) || name == "Group" {
				c.values[name] = value
			}
			g.constants = append(g.constants, constant{name, value, comment})
		}
	}
	if len(g.constants) > 0 {
		c.groups = append(c.groups, g)
	}
}

// evaluate returns the value of an expression of strings and constants.
func (c *source) evaluate(expression ast.Expr) (value string, ok bool) {
	switch e := expression.(type) {
	case *ast.BasicLit:
		value, err := strconv.Unquote(e.Value)
		return value, err == nil && e.Kind == token.STRING
	case *ast.Ident:
		value, ok = c.values[e.Name]
	case *ast.SelectorExpr:
		value, ok = c.values[e.Sel.Name]
	case *ast.BinaryExpr:
		left, known := c.evaluate(e.X)
		right, too := c.evaluate(e.Y)
		return left + right, known && too && e.Op == token.ADD
	}
	return value, ok
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
