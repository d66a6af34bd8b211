// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package access is what the verbs of kubectl-minicluster share: the cluster of a kubeconfig, what they print to, and
// the errors that set the exit code.
package access

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"

	"golang.org/x/term"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/version"
)

// ManagerNamespace is the namespace of the manager in config and in the documentation.
const ManagerNamespace = "flux-elastic-system"

// Session is one run of the program.
type Session struct {
	// IOStreams are for text (Plain). Raw are the same as they are, for the output of commands, and to draw on a terminal.
	genericiooptions.IOStreams
	Raw   genericiooptions.IOStreams
	Flags Flags
	Clock clock.WithTicker
	// answered is true once a request of Insist has succeeded.
	answered atomic.Bool
}

// New returns a session with kubectl's flags.
func New(in io.Reader, out, errOut io.Writer) *Session {
	return &Session{
		IOStreams: genericiooptions.IOStreams{In: in, Out: Plain{out}, ErrOut: Plain{errOut}},
		Raw:       genericiooptions.IOStreams{In: in, Out: out, ErrOut: errOut},
		Clock:     clock.RealClock{},
	}
}

// Namespace returns the namespace of --namespace, or else of the kubeconfig, or else default.
func (s *Session) Namespace() (string, error) {
	namespace, _, err := s.Flags.Load().Namespace()
	if clientcmd.IsEmptyConfig(err) { // much is checked without a cluster
		return cmp.Or(s.Flags.Context.Namespace, metav1.NamespaceDefault), nil
	}
	return namespace, err
}

// Among returns the namespace in which a verb looks; "" for all namespaces.
func (s *Session) Among(all bool) (string, error) {
	if all {
		return "", nil
	}
	return s.Namespace()
}

// Config returns how the API server is reached.
func (s *Session) Config() (*rest.Config, error) {
	config, err := s.Flags.Load().ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("finding the cluster: %w", err)
	}
	config = rest.CopyConfig(config)
	config.UserAgent = "kubectl-minicluster/" + version.String()
	if config.QPS == 0 { // hundreds of MiniClusters are submitted at once; the API server limits what is too much
		config.QPS, config.Burst = 50, 300
	}
	return config, nil
}

// Scheme has the kinds that verbs read, write and print.
var Scheme = func() *runtime.Scheme {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(v1alpha2.AddToScheme(scheme))
	return scheme
}()

// Client returns a client of the API server, which reads from the server each time.
func (s *Session) Client() (client.WithWatch, error) {
	config, err := s.Config()
	if err != nil {
		return nil, err
	}
	return client.NewWithWatch(config, client.Options{Scheme: Scheme})
}

// List reads objects from the server.
func (s *Session) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	c, err := s.Client()
	if err != nil {
		return err
	}
	return c.List(ctx, list, options...)
}

// Clientset returns a client for what is no object: logs, and commands in pods.
func (s *Session) Clientset() (*kubernetes.Clientset, error) {
	config, err := s.Config()
	if err != nil {
		return nil, err
	}
	return kubernetes.NewForConfig(config)
}

// IsTerminal reports whether the output is a terminal.
func (s *Session) IsTerminal() bool {
	file, ok := s.Raw.Out.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// Width is that of the terminal, in characters; 0 if the output is no terminal.
func (s *Session) Width() int {
	file, ok := s.Raw.Out.(*os.File)
	if !ok {
		return 0
	}
	width, _, err := term.GetSize(int(file.Fd()))
	if err != nil {
		return 0
	}
	return width
}

// ReadObject reads a file that has one YAML document.
func ReadObject(name string, stdin io.Reader) ([]byte, error) {
	text, err := ReadFile(name, stdin)
	if err != nil {
		return nil, err
	}
	return OnlyObject(name, text)
}

// OnlyObject returns the one YAML document of a file. Others would be lost, so they are an error.
func OnlyObject(name string, text []byte) ([]byte, error) {
	var object []byte
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return object, nil
		} else if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		var content any
		if err := yaml.Unmarshal(document, &content); err == nil && content == nil { // only comments
			continue
		}
		if object != nil {
			return nil, fmt.Errorf("%s: it has more than one YAML document", name)
		}
		object = document
	}
}

// ReadFile reads a file; - is the standard input.
func ReadFile(name string, stdin io.Reader) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(stdin)
	}
	return os.ReadFile(name)
}
