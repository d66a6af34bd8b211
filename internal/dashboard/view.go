// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/state"
)

// Objects are what a View is made from. They are not changed.
type Objects struct {
	Nodes        []corev1.Node
	Pods         []corev1.Pod
	MiniClusters []v1alpha2.MiniCluster
	Queues       []v1alpha2.MiniClusterQueue
	Reservations []v1alpha2.MiniClusterReservation
	// Levels are the levels of the topology, outermost first.
	Levels []state.TopologyLevel
	// Batch selects the nodes that brokers may use.
	Batch labels.Selector
}

// View is the cluster. The items of a slice have different keys.
type View struct {
	Nodes        []Node
	MiniClusters []MiniCluster
	Queues       []Queue
	Reservations []Reservation
	Samples      []Sample
	// Viewer has one item: who looks at it.
	Viewer []Viewer
}

// Node is a node of the map.
type Node struct {
	// Name is the key.
	Name string `json:"key"`
	// In are the domains of the node, outermost first; "" for a level without a domain.
	In []string `json:"in,omitempty"`
	// Down is why no pod can be placed on the node; "" if the node is up.
	Down string `json:"down,omitempty"`
	// Taint is the key of a taint that pods have to tolerate; "" for none.
	Taint string `json:"taint,omitempty"`
	// Reserved is true while a reservation is active. Reservation is its name, if the viewer may see it.
	Reserved    bool   `json:"reserved,omitempty"`
	Reservation string `json:"reservation,omitempty"`
	// Holders are the MiniClusters on the node, by key.
	Holders []Holder `json:"by,omitempty"`
	// Part is how much of the node the MiniClusters requested, in percent, of the resource of which
	// least is left.
	Part int `json:"part,omitempty"`
}

// Holder is a MiniCluster on a node.
type Holder struct {
	// Of is the key of the MiniCluster; "" for MiniClusters that the viewer may not see.
	Of string `json:"of"`
	// Pods is how many of its pods have room on the node.
	Pods int `json:"pods"`
}

// MiniCluster is a line of the table. Times are seconds since 1970; 0 if not known.
type MiniCluster struct {
	// ID is the key: namespace/name.
	ID        string `json:"key"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Queue     string `json:"queue"`
	// User is the user of the queue to whom the MiniCluster belongs.
	User string `json:"user"`
	// Command is the beginning of the command, in one line.
	Command string `json:"command,omitempty"`
	// State is the reason of the condition JobMiniClusterReady; "" if nobody has looked at the
	// MiniCluster yet. Message explains the state.
	State   string `json:"state"`
	Message string `json:"message,omitempty"`
	// Why is the reason for which a MiniCluster waits, or the outcome of one that has finished.
	Why string `json:"why,omitempty"`
	// Position is the place in the queue, from 1; 0 if the MiniCluster does not wait, or if its queue
	// does not list it.
	Position int32 `json:"position,omitempty"`
	// Up is the number of brokers that are up, Has of those that have nodes, Wanted of those that the
	// spec asks for. Least and Most are the smallest and the largest size.
	Up     int32 `json:"up"`
	Has    int32 `json:"has"`
	Wanted int32 `json:"wanted"`
	Least  int32 `json:"least"`
	Most   int32 `json:"most"`
	Tasks  int32 `json:"tasks,omitempty"`
	// Nodes is the number of nodes that the MiniCluster holds.
	Nodes    int32 `json:"nodes"`
	Attempt  int32 `json:"attempt,omitempty"`
	Created  int64 `json:"created"`
	Admitted int64 `json:"admitted,omitempty"`
	Started  int64 `json:"started,omitempty"`
	Ended    int64 `json:"ended,omitempty"`
	// Deadline is how long the command may run, in seconds; 0 for no limit, or without nodes.
	Deadline int64 `json:"deadline,omitempty"`
}

// Queue is a queue.
type Queue struct {
	// Name is the key.
	Name string `json:"key"`
	// Listed is true if the numbers are those of the queue. Otherwise they are of the MiniClusters that
	// the viewer sees.
	Listed    bool   `json:"listed,omitempty"`
	Pending   int32  `json:"pending"`
	Admitted  int32  `json:"admitted"`
	Weight    int32  `json:"weight,omitempty"`
	Priority  int32  `json:"priority,omitempty"`
	Ordering  string `json:"ordering,omitempty"`
	Backfill  string `json:"backfill,omitempty"`
	Suspended bool   `json:"suspended,omitempty"`
	// Share and Deserved are parts of the cluster, from "0" to "1".
	Share    string `json:"share,omitempty"`
	Deserved string `json:"deserved,omitempty"`
}

// Reservation is a reservation that is not over.
type Reservation struct {
	// Name is the key.
	Name  string `json:"key"`
	Phase string `json:"phase"`
	// Queue may use the nodes; "" for maintenance.
	Queue   string `json:"queue,omitempty"`
	Size    int32  `json:"size"`
	Staying int32  `json:"staying,omitempty"`
	From    int64  `json:"from"`
	Until   int64  `json:"until"`
}

// Viewer says which parts of the page a viewer may see.
type Viewer struct {
	// Name is the key, the name of the user.
	Name string `json:"key"`
	// Nodes, Queues and Reservations are true if the viewer may list these objects. All is true if the
	// viewer may list the MiniClusters of all namespaces.
	Nodes        bool `json:"nodes"`
	Queues       bool `json:"queues"`
	Reservations bool `json:"reservations"`
	All          bool `json:"all"`
	// Namespaces is the number of namespaces whose MiniClusters the viewer sees, of those that have
	// MiniClusters.
	Namespaces int `json:"namespaces"`
	// Levels are the names of the levels of the topology, outermost first.
	Levels []string `json:"levels,omitempty"`
}

// Domain names the domains of the node, outermost first, with slashes between them; "" without any.
func (n Node) Domain() string {
	return strings.Join(slices.DeleteFunc(slices.Clone(n.In), func(name string) bool { return name == "" }), "/")
}

// Key is the name of the node.
func (n Node) Key() string { return n.Name }

// Key is the namespace and the name.
func (m MiniCluster) Key() string { return m.ID }

// Key is the name of the queue.
func (q Queue) Key() string { return q.Name }

// Key is the name of the reservation.
func (r Reservation) Key() string { return r.Name }

// Key is the name of the user.
func (v Viewer) Key() string { return v.Name }

// New makes the view of somebody who may see all.
func New(o *Objects) *View {
	v := &View{Viewer: []Viewer{{Levels: make([]string, len(o.Levels))}}}
	for i, level := range o.Levels {
		v.Viewer[0].Levels[i] = level.Name
	}
	held := holdersOf(o)
	for i := range o.Nodes {
		if node := &o.Nodes[i]; len(held[node.Name]) > 0 || o.Batch == nil || o.Batch.Matches(labels.Set(node.Labels)) {
			v.Nodes = append(v.Nodes, nodeOf(node, o, held[node.Name]))
		}
	}
	reserve(v.Nodes, o.Reservations)
	v.Reservations = reservationsOf(o.Reservations)
	v.MiniClusters = miniClustersOf(o)
	v.Queues = withNamed(listedQueues(o.Queues), v.MiniClusters)
	return v
}

// Namespaces are the namespaces of the MiniClusters, without duplicates.
func (v *View) Namespaces() map[string]bool {
	namespaces := map[string]bool{}
	for i := range v.MiniClusters {
		namespaces[v.MiniClusters[i].Namespace] = true
	}
	return namespaces
}

// seconds is a time as seconds since 1970; 0 if there is none.
func seconds(t *metav1.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.Unix()
}

// namespaceOf is the namespace of a MiniCluster's key.
func namespaceOf(key string) string {
	namespace, _, _ := strings.Cut(key, "/")
	return namespace
}
