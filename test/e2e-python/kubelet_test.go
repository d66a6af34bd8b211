// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package e2epython

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The lines that every container has printed. LAMMPS ends like this.
const (
	firstLine = "Setting up Verlet run ..."
	lastLine  = "Loop time of 4.5 on 28 procs for 100 steps with 304 atoms"
)

// serveLogs lets the simulated nodes of a cluster have logs: the API server asks one server, in place of all kubelets.
func serveLogs(ctx context.Context, c client.Client) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", func(w http.ResponseWriter, r *http.Request) {
		for i, line := range []string{firstLine, lastLine} {
			if r.URL.Query().Get("timestamps") == "true" {
				line = fmt.Sprintf("2026-01-01T00:00:00.%09dZ %s", i, line)
			}
			fmt.Fprintln(w, line)
		}
	})
	server := httptest.NewTLSServer(mux) // it ends with the process
	port := server.Listener.Addr().(*net.TCPAddr).Port
	var nodes corev1.NodeList
	if err := c.List(ctx, &nodes); err != nil {
		return err
	}
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil,
		`{"status":{"addresses":[{"type":"InternalIP","address":"127.0.0.1"}],"daemonEndpoints":{"kubeletEndpoint":{"Port":%d}}}}`, port))
	for i := range nodes.Items {
		if err := c.Status().Patch(ctx, &nodes.Items[i], patch); err != nil {
			return err
		}
	}
	return nil
}
