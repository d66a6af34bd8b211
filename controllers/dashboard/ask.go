// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/flux-elastic/flux-elastic/controllers/guard"
)

const (
	// logLines and logBytes bound the end of a log.
	logLines = 500
	logBytes = 64 << 10
	// What is read of the events of a MiniCluster: so many, a page at a time, until they have so many bytes. Users may write
	// events of 1.5 MiB. mostMessage is how much of a message is sent.
	mostEvents     = 200
	pageOfEvents   = 5
	mostEventBytes = 4 << 20
	mostMessage    = 4 << 10
	// askTimeout is how long the API server may take for a log or events.
	askTimeout = 10 * time.Second
)

// ask lets a request ask the API server once there is a place for it.
func (s *Server) ask(next func(http.ResponseWriter, *http.Request, *viewer)) func(http.ResponseWriter, *http.Request, *viewer) {
	return func(w http.ResponseWriter, r *http.Request, v *viewer) {
		ctx, cancel := context.WithTimeout(r.Context(), askTimeout)
		leave := s.asks.take(v.who.Budget(), ctx.Done())
		cancel()
		if leave == nil {
			http.Error(w, "Too many logs and events are being read.", http.StatusServiceUnavailable)
			return
		}
		defer leave()
		_ = http.NewResponseController(w).SetWriteDeadline(deadline().Add(2 * askTimeout)) // a review and the answer of the API server
		next(w, r, v)
	}
}

// log sends the end of the lead's log, which the API server gives to the viewer's token.
func (s *Server) log(w http.ResponseWriter, r *http.Request, v *viewer) {
	name := nameOf(r)
	if err := v.mayGet(r.Context(), name); err != nil {
		refuse(w, err)
		return
	}
	view, err := s.source.miniCluster(r.Context(), name)
	if err != nil || view == nil {
		refuse(w, orGone(err))
		return
	}
	lead := view.Brokers()[0]
	if lead == nil {
		http.Error(w, "The lead has no pod now.", http.StatusNotFound)
		return
	}
	core, err := s.as(r)
	if err != nil {
		refuse(w, err)
		return
	}
	// A limit of bytes would cut off the end of these lines.
	stream, err := core.Pods(lead.Namespace).GetLogs(lead.Name, &corev1.PodLogOptions{Container: name.Name, TailLines: ptr.To[int64](logLines)}).
		Stream(r.Context())
	if err != nil {
		refuse(w, err)
		return
	}
	defer stream.Close()
	end, err := endOf(stream, logBytes)
	if err != nil {
		refuse(w, err)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write(end)
}

// endOf returns the last lines of a text, of some bytes at most; the last bytes of a line that is longer.
func endOf(text io.Reader, most int) ([]byte, error) {
	last := lastBytes{most: most}
	if _, err := io.Copy(&last, text); err != nil {
		return nil, err
	}
	if newline := bytes.IndexByte(last.kept, '\n'); last.isCut && newline >= 0 && newline < len(last.kept)-1 {
		return last.kept[newline+1:], nil
	}
	return last.kept, nil
}

// lastBytes keeps the last bytes that are written to it.
type lastBytes struct {
	most  int
	kept  []byte
	isCut bool // bytes before these were written, too
}

func (l *lastBytes) Write(text []byte) (int, error) {
	l.kept = append(l.kept, text...)
	if more := len(l.kept) - l.most; more > 0 {
		l.kept, l.isCut = append(l.kept[:0], l.kept[more:]...), true
	}
	return len(text), nil
}

// told is an event as the page shows it, with its time in seconds since 1970.
type told struct {
	At      int64  `json:"at"`
	Type    string `json:"type"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
	Count   int32  `json:"count"`
}

// events sends the events of a MiniCluster, the latest first. The API server gives them to the viewer's token.
func (s *Server) events(w http.ResponseWriter, r *http.Request, v *viewer) {
	name := nameOf(r)
	life, err := v.life(r.Context(), name)
	if err != nil {
		refuse(w, err)
		return
	}
	core, err := s.as(r)
	if err != nil {
		refuse(w, err)
		return
	}
	out, err := eventsOf(r.Context(), core.Events(name.Namespace), life.Story[0].UID)
	if err != nil {
		refuse(w, err)
		return
	}
	slices.SortStableFunc(out, func(a, b told) int { return int(b.At - a.At) })
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(out)
}

// eventsOf reads the events of an object.
func eventsOf(ctx context.Context, events corev1client.EventInterface, uid string) ([]told, error) {
	out, size, next := []told{}, 0, ""
	for len(out) < mostEvents && size < mostEventBytes {
		list, err := events.List(ctx, metav1.ListOptions{
			FieldSelector: fields.OneTermEqualSelector("involvedObject.uid", uid).String(), Limit: pageOfEvents, Continue: next,
		})
		if err != nil {
			return nil, err
		}
		for i := range list.Items {
			e := &list.Items[i]
			size += e.Size()
			out = append(out, told{At: lastSeen(e), Type: start(e.Type), Reason: start(e.Reason), Message: start(e.Message), Count: countOf(e)})
		}
		if next = list.Continue; next == "" {
			break
		}
	}
	return out, nil
}

// start is the beginning of a text of an event, without the memory of the rest.
func start(text string) string {
	return strings.Clone(strings.ToValidUTF8(text[:min(len(text), mostMessage)], ""))
}

// lastSeen is when an event happened last.
func lastSeen(e *corev1.Event) int64 {
	last := max(e.LastTimestamp.Unix(), e.EventTime.Unix(), e.CreationTimestamp.Unix())
	if e.Series != nil {
		last = max(last, e.Series.LastObservedTime.Unix())
	}
	return last
}

// countOf is how often an event happened.
func countOf(e *corev1.Event) int32 {
	if e.Series != nil {
		return e.Series.Count
	}
	return max(e.Count, 1)
}

// as returns a client with the viewer's own token: the API server decides what the viewer may read. If the page is
// open, it is the manager's.
func (s *Server) as(r *http.Request) (*corev1client.CoreV1Client, error) {
	config := rest.CopyConfig(s.options.Config)
	if !s.options.Open {
		config = rest.AnonymousClientConfig(config)
		config.BearerToken = guard.Token(r)
	}
	config.Timeout = askTimeout
	return corev1client.NewForConfig(config)
}

func orGone(err error) error {
	if err == nil {
		return errGone
	}
	return err
}

// refuse says why something cannot be read.
func refuse(w http.ResponseWriter, err error) {
	var status apierrors.APIStatus
	switch {
	case errors.Is(err, errGone):
		http.Error(w, sentence(err.Error()), http.StatusNotFound)
	case errors.As(err, &status) && status.Status().Code >= 400:
		http.Error(w, fmt.Sprintf("The API server says: %s", status.Status().Message), int(status.Status().Code))
	default:
		unavailable(w, err)
	}
}

func sentence(text string) string { return strings.ToUpper(text[:1]) + text[1:] + "." }
