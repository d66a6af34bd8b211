// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
)

// Exit codes of the program. Those of commands of MiniClusters are beside them.
const (
	CodeFailed = 1
	CodeUsage  = 2
	// CodeTimeout is that of timeout(1).
	CodeTimeout = 124
	// CodeInterrupted is that of a program that SIGINT ended.
	CodeInterrupted = 130
)

// ExitError is an error with an exit code. Err may be nil: then nothing is printed.
type ExitError struct {
	Code int
	Err  error

	usage bool // of an invalid command line
}

func (e *ExitError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

func (e *ExitError) Unwrap() error { return e.Err }

// Usagef returns the error of an invalid command line.
func Usagef(format string, args ...any) error {
	return &ExitError{Code: CodeUsage, Err: fmt.Errorf(format, args...), usage: true}
}

// Hint names the help of a verb after the error of its invalid command line. Other errors stay as they are.
func Hint(cmd *cobra.Command, err error) error {
	if exit := new(ExitError); !errors.As(err, &exit) || !exit.usage {
		return err
	}
	return fmt.Errorf("%w; try %s --help", err, cmd.CommandPath())
}

// FlagError is the error of flags that cannot be read.
func FlagError(cmd *cobra.Command, err error) error {
	if invalid := new(pflag.InvalidValueError); errors.As(err, &invalid) && invalid.GetFlag().Shorthand == "n" { // that of kubectl
		return Usagef("-n %s: -n is --%s of %s; for a namespace use --namespace=%s", invalid.GetValue(), invalid.GetFlag().Name, cmd.Name(), invalid.GetValue())
	}
	return Usagef("%w", err)
}

// NoArgs is the check of a verb without arguments.
func NoArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return Usagef("%s has no arguments, and not %q", cmd.Name(), args)
	}
	return nil
}

// NoVerb is what a command does that has verbs, and was given none of them.
func NoVerb(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0 && cmd.HasParent():
		var verbs []string
		for _, verb := range cmd.Commands() {
			if !verb.Hidden {
				verbs = append(verbs, verb.Name())
			}
		}
		return Usagef("name a verb: %s", strings.Join(verbs, ", "))
	case len(args) == 0:
		return Usagef("name a verb")
	}
	cmd.SuggestionsMinimumDistance = 2
	if like := cmd.SuggestionsFor(args[0]); len(like) > 0 {
		return Usagef("unknown verb %q, did you mean %s", args[0], strings.Join(like, " or "))
	}
	return Usagef("unknown verb %q", args[0])
}

// Report prints an error, and returns the exit code of the program.
func Report(err error, stderr io.Writer) int {
	if err == nil {
		return 0
	}
	code := CodeFailed
	if exit := new(ExitError); errors.As(err, &exit) {
		code = exit.Code
		if exit.Err == nil {
			return code
		}
	} else if errors.Is(err, context.Canceled) {
		return CodeInterrupted
	}
	fmt.Fprintln(Plain{stderr}, "kubectl-minicluster:", Explain(err))
	return code
}

// Explain returns an error in words for a user of a cluster.
func Explain(err error) string {
	status := apierrors.APIStatus(nil)
	switch {
	case meta.IsNoMatchError(err):
		return "the cluster does not have the API of flux-elastic: " + err.Error()
	case apierrors.IsForbidden(err) && errors.As(err, &status):
		return forbidden(status)
	case apierrors.IsUnauthorized(err):
		return "the cluster does not know you: renew the credentials of your kubeconfig"
	}
	return strings.ReplaceAll(err.Error(), "<nil>: ", "") // the path of what is wrong, if that is the whole object
}

// forbidden says which right is missing.
func forbidden(status apierrors.APIStatus) string {
	message := status.Status().Message
	if i := strings.Index(message, "User "); i >= 0 {
		message = message[i:]
	}
	return "a right is missing: " + message
}
