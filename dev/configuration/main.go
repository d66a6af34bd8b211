// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Command configuration writes the tables of docs/configuration.md, and the schema of the manager's configuration file,
// from the table of settings. `make generate` runs it in the root of the checkout.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/flux-elastic/flux-elastic/cmd/manager/options"
)

const (
	page       = "docs/configuration.md"
	schemaFile = "config/manager/config.schema.json"
	// mark is the line of the page after which everything is generated.
	mark = "<!-- The rest is made from cmd/manager/options by `make generate`. -->\n"
)

func main() {
	if err := generate(options.Sections()); err != nil {
		fmt.Fprintln(os.Stderr, "configuration:", err)
		os.Exit(1)
	}
}

func generate(sections []options.Section) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	prose, _, found := strings.Cut(string(text), mark)
	if !found {
		return fmt.Errorf("%s does not have the line %s", page, mark)
	}
	if err := os.WriteFile(page, []byte(prose+mark+tables(sections)), 0o644); err != nil {
		return err
	}
	var schema bytes.Buffer
	encoder := json.NewEncoder(&schema)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(schemaOf(sections)); err != nil {
		return err
	}
	return os.WriteFile(schemaFile, schema.Bytes(), 0o644)
}

// tables returns one table for each section.
func tables(sections []options.Section) string {
	var b strings.Builder
	for _, section := range sections {
		fmt.Fprintf(&b, "\n## %s\n\n| flag and field | default | meaning |\n|---|---|---|\n", section.Title)
		for _, s := range section.Settings {
			value := ""
			if s.Default != "" {
				value = "`" + s.Default + "`"
			}
			fmt.Fprintf(&b, "| `--%s`<br>`%s` | %s | %s |\n", s.Flag, s.Field(), value, meaning(&s))
		}
	}
	return b.String()
}

// meaning returns the meaning of a setting, with its choices, unless it names them itself.
func meaning(s *options.Setting) string {
	if len(s.Choices) == 0 || strings.Contains(s.Meaning, s.Choices[0]) {
		return s.Meaning
	}
	return s.Meaning + ": " + strings.Join(s.Choices, ", ")
}

// schema is a JSON schema.
type schema struct {
	Schema               string             `json:"$schema,omitempty"`
	Title                string             `json:"title,omitempty"`
	Description          string             `json:"description,omitempty"`
	Type                 string             `json:"type"`
	Enum                 []string           `json:"enum,omitempty"`
	Minimum              *int               `json:"minimum,omitempty"`
	Default              any                `json:"default,omitempty"`
	Required             []string           `json:"required,omitempty"`
	Properties           map[string]*schema `json:"properties,omitempty"`
	AdditionalProperties *bool              `json:"additionalProperties,omitempty"`
}

func schemaOf(sections []options.Section) *schema {
	file := &schema{
		Schema: "http://json-schema.org/draft-07/schema#", Title: "Configuration of the manager of flux-elastic", Type: "object",
		Required: []string{"apiVersion", "kind"}, AdditionalProperties: new(false),
		Properties: map[string]*schema{
			"apiVersion": {Type: "string", Enum: []string{options.APIVersion}},
			"kind":       {Type: "string", Enum: []string{options.FileKind}},
		},
	}
	for _, section := range sections {
		for _, s := range section.Settings {
			value := any(s.Default)
			if s.Kind != options.String {
				value = json.RawMessage(s.Default) // a number, or true or false
			}
			file.Properties[s.Field()] = &schema{Description: s.Meaning, Type: string(s.Kind), Enum: s.Choices, Minimum: s.Minimum, Default: value}
		}
	}
	return file
}
