// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package dashboard is the verb dashboard: a way from a browser to the web page of the manager, by the API server and with
// the credentials of the user's kubeconfig.
package dashboard

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"html"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/flux-elastic/flux-elastic/cmd/kubectl-minicluster/access"
)

// headerTimeout is how long a browser may take to send the headers of a request.
const headerTimeout = 10 * time.Second

// options are the flags.
type options struct {
	managers, account string
	port, remote      uint16
	open              bool
}

// New makes the verb.
func New(s *access.Session) *cobra.Command {
	o := options{}
	cmd := &cobra.Command{
		Use: "dashboard", Short: "Open the web page of the manager as yourself", Args: access.NoArgs,
		Example: "  kubectl minicluster dashboard --open\n  kubectl minicluster dashboard --service-account=viewer --namespace=research",
		Long: `Open the web page of the manager as yourself: forward a local port to the page until ctrl-C, and print an address that logs
you in. Your own token does not leave this program but to the manager. The key in the address counts for this port alone, and
until ctrl-C. You need the rights to list pods and to create pods/portforward in the namespace of the manager.

The page knows users by their tokens. With a client certificate, name a service account whose tokens you may create.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), s, o) },
	}
	cmd.Flags().StringVar(&o.managers, "manager-namespace", access.ManagerNamespace, "namespace of the manager")
	cmd.Flags().Uint16Var(&o.remote, "manager-port", 8082, "port of the page in the pod of the manager")
	cmd.Flags().Uint16Var(&o.port, "port", 0, "local port; 0 is a free one")
	cmd.Flags().StringVar(&o.account, "service-account", "", "look as this service account of the namespace, with a token made for it")
	cmd.Flags().BoolVar(&o.open, "open", false, "open the address in a browser")
	return cmd
}

// run serves the page on a local port until the context is done.
func run(ctx context.Context, s *access.Session, o options) error {
	config, err := s.Config()
	if err != nil {
		return err
	}
	clientset, err := s.Clientset()
	if err != nil {
		return err
	}
	way := &way{config: config, clientset: clientset, options: o}
	defer way.close()
	known, err := identify(ctx, s, way)
	if err != nil {
		return err
	}
	if err := check(ctx, known, way.pod()); err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", o.port))
	if err != nil {
		return err
	}
	key := rand.Text()
	address := fmt.Sprintf("http://%s/#token=%s", listener.Addr(), key)
	server := &http.Server{Handler: newProxy(key, known, way.transport()), ReadHeaderTimeout: headerTimeout}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	fmt.Fprintln(s.Out, address)
	fmt.Fprintln(s.ErrOut, "Whoever has this address sees what you may see, until ctrl-C.")
	if o.open {
		remove, err := show(address)
		defer remove()
		if err != nil {
			fmt.Fprintf(s.ErrOut, "No browser was opened: %s.\n", err)
		}
	}
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// check asks the page once.
func check(ctx context.Context, known http.RoundTripper, pod string) error {
	ctx, done := context.WithCancel(ctx) // the answer does not end
	defer done()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1/api/view", nil)
	if err != nil {
		return err
	}
	answer, err := known.RoundTrip(request)
	if err != nil {
		return err
	}
	_ = answer.Body.Close()
	switch answer.StatusCode {
	case http.StatusOK:
		return nil
	case http.StatusUnauthorized:
		return errors.New("the manager does not accept your token: it is for another cluster, or has expired")
	}
	return fmt.Errorf("the page of pod %s answers %s", pod, answer.Status)
}

// show opens the address in a browser by a file that nobody else may read: other users may read the arguments of a program.
// The file has to stay until the browser has read it.
func show(address string) (remove func(), _ error) {
	directory, err := os.MkdirTemp("", "minicluster-dashboard-")
	if err != nil {
		return func() {}, err
	}
	remove = func() { _ = os.RemoveAll(directory) }
	file := filepath.Join(directory, "open.html")
	text := fmt.Sprintf("<!doctype html><meta http-equiv=refresh content=\"0; url=%s\">\n", html.EscapeString(address))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return remove, err
	}
	opener := cmp.Or(map[string]string{"darwin": "open"}[runtime.GOOS], "xdg-open")
	command := exec.Command(opener, file)                     //nolint:gosec,noctx // the browser may outlive this program
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // and does not get its signals
	if err := command.Start(); err != nil {
		return remove, err
	}
	go func() { _ = command.Wait() }()
	return remove, nil
}
