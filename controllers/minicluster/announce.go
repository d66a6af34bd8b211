// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package minicluster

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
)

const (
	// announceFor is how old a decision may be for its event to be sent. It is less than the hour
	// for which the API server keeps events by default, so that no event is sent twice.
	announceFor = 50 * time.Minute
	// announceAtOnce is how many events are sent at once, of as many MiniClusters.
	announceAtOnce = 8
	// announceTimeout is how long one request may take.
	announceTimeout = 10 * time.Second
	// announceAgain and announceAgainMost are the first and the longest pause before an event is
	// sent again.
	announceAgain     = 100 * time.Millisecond
	announceAgainMost = time.Minute
)

// announcer sends the events of decisions beside the passes: no pass waits for an event. It sends
// those of one MiniCluster in their order, and tries again until each is written. An event's name
// does not depend on the sender, so each is there once, also after a restart.
type announcer struct {
	client client.Client
	clock  clock.PassiveClock
	queue  workqueue.TypedRateLimitingInterface[types.UID]
	// told sends the MiniClusters whose statuses list pending events that have been written.
	told chan event.GenericEvent

	mutex sync.Mutex
	byUID map[types.UID]*untold
}

// untold are the decisions about one MiniCluster whose events are not known to be written.
type untold struct {
	miniCluster *v1alpha2.MiniCluster // what events need of it; it may be deleted by now
	decisions   []v1alpha2.Decision   // the oldest first
	// listed is true if the status lists pending events.
	listed bool
}

func newAnnouncer(c client.Client, clock clock.PassiveClock) *announcer {
	return &announcer{
		client: c, clock: clock, told: make(chan event.GenericEvent), byUID: map[types.UID]*untold{},
		queue: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[types.UID](announceAgain, announceAgainMost)),
	}
}

// announce adds the recorded decisions of a MiniCluster, each once.
func (a *announcer) announce(mc *v1alpha2.MiniCluster, memory *memory) {
	var news []v1alpha2.Decision
	recorded := slices.Clone(mc.Status.PendingEvents)
	if mc.Status.LastDecision != nil {
		recorded = append(recorded, *mc.Status.LastDecision)
	}
	for _, decision := range recorded {
		if decision.Number > memory.announced && a.clock.Since(decision.Time.Time) <= announceFor {
			news = append(news, decision)
		}
	}
	if len(news) > 0 {
		memory.announced = news[len(news)-1].Number
		a.add(mc, news)
	}
}

// add adds decisions that follow on those that were added before. If too many are untold, the
// oldest ones are forgotten: the API server has been away for long.
func (a *announcer) add(mc *v1alpha2.MiniCluster, decisions []v1alpha2.Decision) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	u := a.byUID[mc.UID]
	if u == nil {
		of := &v1alpha2.MiniCluster{}
		of.Namespace, of.Name, of.UID, of.ResourceVersion = mc.Namespace, mc.Name, mc.UID, mc.ResourceVersion
		u = &untold{miniCluster: of}
		a.byUID[mc.UID] = u
	}
	known := int64(-1)
	if n := len(u.decisions); n > 0 {
		known = u.decisions[n-1].Number
	}
	for _, decision := range decisions {
		if decision.Number > known {
			u.decisions = append(u.decisions, decision)
		}
	}
	u.decisions = u.decisions[max(0, len(u.decisions)-v1alpha2.MostPendingEvents-1):]
	u.listed = u.listed || len(mc.Status.PendingEvents) > 0
	a.queue.Add(mc.UID)
}

// untold returns the decisions about a MiniCluster whose events are not known to be written.
func (a *announcer) untold(uid types.UID) []v1alpha2.Decision {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if u := a.byUID[uid]; u != nil {
		return slices.Clone(u.decisions)
	}
	return nil
}

// Start sends events until the context is done. The next manager sends what is left.
func (a *announcer) Start(ctx context.Context) error {
	var senders sync.WaitGroup
	for range announceAtOnce {
		senders.Go(func() {
			for a.sendNext(ctx) {
			}
		})
	}
	<-ctx.Done()
	a.queue.ShutDown()
	senders.Wait()
	return nil
}

// sendNext sends the events of the next MiniCluster; false if there will be none.
func (a *announcer) sendNext(ctx context.Context) bool {
	uid, shutdown := a.queue.Get()
	if shutdown {
		return false
	}
	defer a.queue.Done(uid)
	for {
		mc, decision, listed := a.first(uid)
		if mc == nil {
			break
		}
		log := ctrl.Log.WithName("announcer").WithValues("MiniCluster", client.ObjectKeyFromObject(mc), "reason", decision.Reason)
		err := a.send(ctx, mc, decision)
		switch {
		case err == nil || apierrors.IsAlreadyExists(err):
		case refused(err) || apierrors.IsNotFound(err): // for example by a quota, or the namespace is gone
			log.Info("An event was refused", "error", err.Error())
		case a.clock.Since(decision.Time.Time) > announceFor:
			log.Error(err, "An event could not be written")
		default:
			log.V(1).Info("An event will be sent again", "error", err.Error())
			a.queue.AddRateLimited(uid)
			return true
		}
		if a.drop(uid, decision) && listed {
			select {
			case a.told <- event.GenericEvent{Object: mc}:
			case <-ctx.Done():
			}
		}
	}
	a.queue.Forget(uid)
	return true
}

// first returns the oldest untold decision about a MiniCluster; no MiniCluster if there is none.
func (a *announcer) first(uid types.UID) (mc *v1alpha2.MiniCluster, decision v1alpha2.Decision, listed bool) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	u := a.byUID[uid]
	if u == nil {
		return nil, v1alpha2.Decision{}, false
	}
	return u.miniCluster, u.decisions[0], u.listed
}

// drop forgets a decision that was told, unless that has happened, and reports whether it was the
// last one.
func (a *announcer) drop(uid types.UID, decision v1alpha2.Decision) bool {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	u := a.byUID[uid]
	if u.decisions[0].Number == decision.Number {
		u.decisions = u.decisions[1:]
	}
	if len(u.decisions) == 0 {
		delete(a.byUID, uid)
	}
	return len(u.decisions) == 0
}

// EventName is the name of the event of a decision. It is the same for all senders, and differs between decisions, also
// between MiniClusters of one name.
func EventName(mc *v1alpha2.MiniCluster, decision v1alpha2.Decision) string {
	name := fmt.Sprintf("%s.%x", mc.Name, decision.Time.UnixNano())
	if decision.Number == 0 { // an older version, which has sent the event under this name
		return name
	}
	return fmt.Sprintf("%s.%d", name, decision.Number)
}

// send writes the event of a decision.
func (a *announcer) send(ctx context.Context, mc *v1alpha2.MiniCluster, decision v1alpha2.Decision) error {
	ctx, cancel := context.WithTimeout(ctx, announceTimeout)
	defer cancel()
	host, _ := os.Hostname() // names the sender, for users
	return a.client.Create(ctx, &eventsv1.Event{
		ObjectMeta:          metav1.ObjectMeta{Namespace: mc.Namespace, Name: EventName(mc, decision)},
		EventTime:           decision.Time,
		ReportingController: v1alpha2.FieldOwner,
		ReportingInstance:   v1alpha2.FieldOwner + "-" + host,
		Action:              "Decide",
		Type:                decision.Type,
		Reason:              decision.Reason,
		Note:                decision.Message,
		Regarding: corev1.ObjectReference{
			APIVersion: v1alpha2.GroupVersion.String(), Kind: v1alpha2.MiniClusterKind,
			Namespace: mc.Namespace, Name: mc.Name, UID: mc.UID, ResourceVersion: mc.ResourceVersion,
		},
	})
}
