// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/cmd/kubectl-minicluster/access"
)

// seen returns a client that sees a MiniCluster change: each list has the next one. After the last one it watches until
// the context is done, which end does if it is not nil.
func seen(end context.CancelFunc, lives ...*v1alpha2.MiniCluster) client.WithWatch {
	for i, mc := range lives {
		mc.UID, mc.ResourceVersion, mc.Spec.Containers = "u", strconv.Itoa(i+1), []v1alpha2.MiniClusterContainer{{}}
	}
	next := 0
	return interceptor.NewClient(fake.NewFakeClient(), interceptor.Funcs{
		Get: func(_ context.Context, _ client.WithWatch, _ client.ObjectKey, mc client.Object, _ ...client.GetOption) error {
			lives[0].DeepCopyInto(mc.(*v1alpha2.MiniCluster))
			return nil
		},
		List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, _ ...client.ListOption) error {
			list.(*v1alpha2.MiniClusterList).Items = []v1alpha2.MiniCluster{*lives[next]}
			next++
			return nil
		},
		Watch: func(ctx context.Context, c client.WithWatch, list client.ObjectList, o ...client.ListOption) (watch.Interface, error) {
			if next < len(lives) {
				return endedWatch(ctx, c, list, o...)
			}
			if end != nil {
				end()
			}
			return watch.NewFake(), nil
		},
	})
}

// silent is a MiniCluster that waits, before the scheduler has looked at it.
func silent() *v1alpha2.MiniCluster { return waitsFor("WaitingForTurn", "") }

// A wait prints the state and its reason when either changes, and not when the message alone does. The last state is the
// goal.
func TestWaitTells(t *testing.T) {
	running := life("JobMiniClusterReady=Running")
	finished := life("JobMiniClusterReady=Succeeded", "Finished=Succeeded")
	for goal, want := range map[string]string{
		"finished": "lmp is Queued (NoRoom): Needs 4.\nlmp is Queued (WaitingForTurn): Waits.\nlmp is Running: Because.\nlmp is Succeeded: Because.\n",
		"running":  "lmp is Queued (NoRoom): Needs 4.\nlmp is Queued (WaitingForTurn): Waits.\nlmp is Running: Because.\n",
		"deleted":  "",
	} {
		s, out := session("")
		c := seen(nil, life(), silent(), waitsFor("NoRoom", "Needs 4"), waitsFor("NoRoom", "Needs 4, soon"), waitsFor("WaitingForTurn", "Waits"), running, finished, gone(finished))
		if err := await(t.Context(), s, c, client.ObjectKey{Name: "lmp"}, goal, 0); err != nil || out.String() != want {
			t.Errorf("%s: %v, %q, want %q", goal, err, out, want)
		}
	}
}

// Ctrl-C says what it leaves behind.
func TestWaitInterrupted(t *testing.T) {
	ending := life("JobMiniClusterReady=Running")
	ending.DeletionTimestamp, ending.Finalizers = &ending.CreationTimestamp, []string{"x"}
	for goal, tc := range map[string]struct {
		mc   *v1alpha2.MiniCluster
		want string
	}{
		"finished": {waitsFor("NoRoom", "Needs 4"), "lmp is Queued, and goes on without this program. To see its output: kubectl minicluster attach lmp. To end it: kubectl minicluster delete lmp"},
		"deleted":  {ending, "lmp is Deleting, and goes away without this program."},
	} {
		ctx, interrupt := context.WithCancel(t.Context())
		s, out := session("")
		err := await(ctx, s, seen(interrupt, tc.mc), client.ObjectKey{Name: "lmp"}, goal, time.Hour)
		if !errors.Is(err, context.Canceled) || !strings.Contains(out.String(), tc.want) {
			t.Errorf("%s: %v, %q", goal, err, out)
		}
	}
}

// Submit says the first reason that there is, and waits for no other.
func TestTellFirst(t *testing.T) {
	s, out := session("")
	made := life()
	made.UID = "u"
	never := waitsFor("NeverFits", "Needs 4")
	if err := tellFirst(t.Context(), s, seen(nil, life(), silent(), never, life("JobMiniClusterReady=Running")), made); err != nil || out.String() != "lmp is Queued (NeverFits): Needs 4.\n" {
		t.Errorf("%v, %q", err, out)
	}
	ctx, interrupt := context.WithCancel(t.Context())
	if err := tellFirst(ctx, s, seen(interrupt, silent()), made); !errors.Is(err, context.Canceled) || !strings.Contains(out.String(), "lmp is Queued, and goes on without this program") {
		t.Errorf("got %v, %q", err, out)
	}
}

// A missing right to watch is told, and not that no manager has said anything.
func TestTellFirstForbidden(t *testing.T) {
	made := life()
	made.UID = "u"
	c := interceptor.NewClient(seen(nil, silent(), silent()), interceptor.Funcs{
		Watch: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) (watch.Interface, error) {
			return nil, apierrors.NewForbidden(schema.GroupResource{Resource: "miniclusters"}, "", errors.New("no right"))
		},
	})
	s, out := session("") // its clock stands still, so that the first look ends before the right is asked for again
	if err := tellFirst(t.Context(), s, c, made); err != nil || !strings.Contains(out.String(), "What becomes of lmp is not known: a right is missing: ") ||
		strings.Contains(out.String(), "No manager") {
		t.Errorf("%v, %q", err, out)
	}
}

// A wait that ends before it has seen a change knows the state from its beginning, and says nothing of what has ended.
func TestWaitEndsAtOnce(t *testing.T) {
	away := func(end func(), mc *v1alpha2.MiniCluster) client.WithWatch {
		return interceptor.NewClient(seen(nil, mc), interceptor.Funcs{
			List: func(ctx context.Context, _ client.WithWatch, _ client.ObjectList, _ ...client.ListOption) error {
				end()
				<-ctx.Done()
				return ctx.Err()
			},
		})
	}
	key := client.ObjectKey{Name: "lmp"}
	s, _ := session("")
	if err := await(t.Context(), s, away(func() {}, silent()), key, "finished", time.Millisecond); err == nil || err.Error() != "lmp is Queued after 1ms" {
		t.Errorf("got %v", err)
	}
	for name, run := range map[string]func(context.Context, *access.Session, client.WithWatch) error{
		"wait": func(ctx context.Context, s *access.Session, c client.WithWatch) error {
			return await(ctx, s, c, key, "finished", 0)
		},
		"attach": func(ctx context.Context, s *access.Session, c client.WithWatch) error { return attach(ctx, s, c, key) },
	} {
		for want, mc := range map[string]*v1alpha2.MiniCluster{
			"lmp is New, and goes on": life(), "lmp is Queued, and goes on": silent(), "": life("JobMiniClusterReady=Succeeded"), " ": life("JobMiniClusterReady=Failed"),
		} {
			ctx, interrupt := context.WithCancel(t.Context())
			s, out := session("")
			s.Flags.ClusterInfo.Server = "http://127.0.0.1:1" // nobody asks it
			err := run(ctx, s, away(interrupt, mc))
			if !errors.Is(err, context.Canceled) || !strings.Contains(out.String(), strings.TrimSpace(want)) || strings.TrimSpace(want) == "" && out.Len() > 0 {
				t.Errorf("%s: %v, %q, want %q", name, err, out, want)
			}
		}
	}
}
