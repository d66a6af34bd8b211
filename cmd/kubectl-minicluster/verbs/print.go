// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/printers"
	"sigs.k8s.io/yaml"

	"github.com/flux-elastic/flux-elastic/cmd/kubectl-minicluster/access"
)

// formats are the values of --output.
var formats = []string{"table", "wide", "json", "yaml", "name"}

// output adds the flag --output to a command.
func output(cmd *cobra.Command, format *string, formats ...string) {
	cmd.Flags().StringVarP(format, "output", "o", formats[0], strings.TrimPrefix(strings.Join(formats, ", "), ", "))
	access.Complete(cmd, "output", access.Choices(formats...))
	check := cmd.PreRunE
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		if !slices.Contains(formats, *format) {
			return access.Usagef("--output=%s: it has to be one of %s", *format, strings.TrimPrefix(strings.Join(formats, ", "), ", "))
		}
		if check != nil {
			return check(cmd, args)
		}
		return nil
	}
}

// printObject prints an object, or a list of objects, as json, yaml or name.
func printObject(out io.Writer, format string, object runtime.Object) error {
	var printer printers.ResourcePrinter
	switch format {
	case "json":
		printer = &printers.JSONPrinter{}
	case "name":
		printer = &printers.NamePrinter{}
	default:
		printer = &printers.YAMLPrinter{}
	}
	return printers.NewTypeSetter(access.Scheme).ToPrinter(&printers.OmitManagedFieldsPrinter{Delegate: printer}).PrintObj(object, out)
}

// printValue prints what is no object of Kubernetes, as json or yaml.
func printValue(out io.Writer, format string, value any) error {
	text, err := json.MarshalIndent(value, "", "  ")
	if format == "yaml" && err == nil {
		text, err = yaml.JSONToYAML(text)
	}
	if err == nil {
		_, err = fmt.Fprintln(out, strings.TrimSpace(string(text)))
	}
	return err
}
