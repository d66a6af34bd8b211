// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"
)

// managerLabels select the pods of the manager.
const managerLabels = "app.kubernetes.io/name=flux-elastic"

// way is the way to the page: through the API server, to a port of a pod of the manager. If the pod goes away, the next
// connection takes another pod.
type way struct {
	config    *rest.Config
	clientset *kubernetes.Clientset
	options

	mutex      sync.Mutex
	connection httpstream.Connection
	name       string // of the pod
	count      int    // of the connections through it
}

// transport sends requests along the way, whatever their host is.
func (w *way) transport() http.RoundTripper {
	return &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return w.dial(ctx) }, DisableCompression: true}
}

func (w *way) pod() string {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return w.name
}

// close ends the connection. It does not wait for a dial that hangs: the program ends.
func (w *way) close() {
	if !w.mutex.TryLock() {
		return
	}
	defer w.mutex.Unlock()
	w.drop()
}

// drop ends the connection, so that the next dial makes one.
func (w *way) drop() {
	if w.connection != nil {
		_ = w.connection.Close()
		w.connection = nil
	}
}

// dial makes a connection to the page: a pair of streams.
func (w *way) dial(ctx context.Context) (net.Conn, error) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if err := w.connect(ctx); err != nil {
		return nil, err
	}
	w.count++
	headers := http.Header{}
	headers.Set(corev1.PortHeader, strconv.Itoa(int(w.remote)))
	headers.Set(corev1.PortForwardRequestIDHeader, strconv.Itoa(w.count))
	headers.Set(corev1.StreamType, corev1.StreamTypeError)
	trouble, err := w.connection.CreateStream(headers)
	if err != nil {
		w.drop()
		return nil, fmt.Errorf("reaching pod %s: %w", w.name, err)
	}
	_ = trouble.Close() // nothing is written to it
	headers.Set(corev1.StreamType, corev1.StreamTypeData)
	data, err := w.connection.CreateStream(headers)
	if err != nil {
		w.drop()
		return nil, fmt.Errorf("reaching pod %s: %w", w.name, err)
	}
	return &conn{Stream: data, trouble: trouble, way: w.connection, pod: w.name}, nil
}

// connect connects to a pod of the manager, if there is no connection that lives.
func (w *way) connect(ctx context.Context) error {
	if w.connection != nil {
		select {
		case <-w.connection.CloseChan():
		default:
			return nil
		}
	}
	pod, err := w.choose(ctx)
	if err != nil {
		return err
	}
	to := w.clientset.CoreV1().RESTClient().Post().Resource("pods").Namespace(w.managers).Name(pod).SubResource("portforward").URL()
	websocket, err := portforward.NewSPDYOverWebsocketDialerForStreaming(to, w.config)
	if err != nil {
		return err
	}
	transport, upgrader, err := spdy.RoundTripperFor(w.config)
	if err != nil {
		return err
	}
	// A proxy on the way may not know WebSocket.
	dialer := portforward.NewFallbackDialerForStreaming(websocket, spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: transport}, http.MethodPost, to), func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
	connection, _, err := dialer.Dial(portforward.PortForwardProtocolV1Name)
	if err != nil {
		return fmt.Errorf("forwarding a port to pod %s of namespace %s: %w", pod, w.managers, err)
	}
	w.connection, w.name, w.count = connection, pod, 0
	return nil
}

// choose returns a pod of the manager that is ready.
func (w *way) choose(ctx context.Context) (string, error) {
	pods, err := w.clientset.CoreV1().Pods(w.managers).List(ctx, metav1.ListOptions{LabelSelector: managerLabels})
	if err != nil {
		return "", err
	}
	ready := func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	}
	for i := range pods.Items {
		if pod := &pods.Items[i]; pod.DeletionTimestamp == nil && slices.ContainsFunc(pod.Status.Conditions, ready) {
			return pod.Name, nil
		}
	}
	return "", fmt.Errorf("namespace %s has no pod of the manager that is ready; --manager-namespace names another one", w.managers)
}

// conn is a connection to the page.
type conn struct {
	httpstream.Stream // the data
	trouble           httpstream.Stream
	way               httpstream.Connection
	pod               string
}

// Read says why a connection that brought nothing ended, if the kubelet knows.
func (c *conn) Read(to []byte) (int, error) {
	n, err := c.Stream.Read(to)
	if err == nil || n > 0 {
		return n, err
	}
	if why, _ := io.ReadAll(c.trouble); len(why) > 0 {
		_ = c.way.Close() // the pod may be gone, and the next request looks for another one
		return 0, fmt.Errorf("the page of pod %s does not answer; the pod is gone, or the manager lacks --dashboard-bind-address: %s", c.pod, strings.TrimSpace(string(why)))
	}
	return 0, err
}

// Close ends both streams.
func (c *conn) Close() error {
	err := c.Reset()
	_ = c.trouble.Reset()
	c.way.RemoveStreams(c.Stream, c.trouble)
	return err
}

func (c *conn) LocalAddr() net.Addr              { return &net.UnixAddr{Name: "kubectl-minicluster", Net: "unix"} }
func (c *conn) RemoteAddr() net.Addr             { return &net.UnixAddr{Name: c.pod, Net: "unix"} }
func (c *conn) SetDeadline(time.Time) error      { return nil } // requests end with their context
func (c *conn) SetReadDeadline(time.Time) error  { return nil }
func (c *conn) SetWriteDeadline(time.Time) error { return nil }
