// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	authenticationapi "k8s.io/api/authentication/v1"
	authorizationapi "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
)

// List reads objects. Of the options it takes the namespace, and a field selector as a name of a MiniCluster.
func (s *Stage) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	var o client.ListOptions
	o.ApplyOptions(options)
	switch list := list.(type) {
	case *corev1.NodeList:
		for _, node := range s.nodes {
			list.Items = append(list.Items, *node)
		}
	case *corev1.PodList:
		list.Items = s.pods(&o)
	case *v1alpha2.MiniClusterList:
		for _, g := range s.all() {
			list.Items = append(list.Items, *g.object)
		}
	case *v1alpha2.MiniClusterQueueList:
		list.Items = s.queues()
	case *v1alpha2.MiniClusterReservationList:
		if len(s.reserved) > 0 {
			list.Items = []v1alpha2.MiniClusterReservation{s.reservation()}
		}
	default:
		return fmt.Errorf("the stage has no %T", list)
	}
	return nil
}

// pods are all pods, or those of a MiniCluster.
func (s *Stage) pods(o *client.ListOptions) (pods []corev1.Pod) {
	for _, g := range s.all() {
		if o.FieldSelector == nil || (g.namespace == o.Namespace && strings.HasSuffix(o.FieldSelector.String(), "="+fields.EscapeValue(g.name))) {
			for _, pod := range g.pods {
				pods = append(pods, *pod)
			}
		}
	}
	return pods
}

// Get reads one object.
func (s *Stage) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	of := slices.IndexFunc(s.all(), func(g *gang) bool { return g.namespace == key.Namespace && g.name == key.Name })
	switch object := object.(type) {
	case *corev1.Node:
		if i := slices.IndexFunc(s.nodes, func(node *corev1.Node) bool { return node.Name == key.Name }); i >= 0 {
			*object = *s.nodes[i]
			return nil
		}
	case *v1alpha2.MiniCluster:
		if of >= 0 {
			s.all()[of].object.DeepCopyInto(object)
			return nil
		}
	case *jobsetapi.JobSet:
		if of >= 0 && s.all()[of].nodes != nil {
			fixture.JobSet(key.Name, 1).Obj().DeepCopyInto(object)
			return nil
		}
	case *v1alpha2.MiniClusterQueue:
		for _, queue := range s.queues() {
			if queue.Name == key.Name {
				*object = queue
				return nil
			}
		}
	}
	return apierrors.NewNotFound(schema.GroupResource{Resource: fmt.Sprintf("%T", object)}, key.Name)
}

func (s *Stage) all() []*gang { return slices.Concat(s.gangs, s.finished) }

// Tokens that the API server of the stage accepts. The viewer of one namespace may list nodes and queues, too.
const (
	// TokenAll may read everything.
	TokenAll = "all"
	// TokenOne may read MiniClusters, pods, logs and events of the namespace team-a.
	TokenOne = "one"
	// TokenLittle may read the MiniClusters of the namespace team-a, and nothing else.
	TokenLittle = "little"
)

// API plays an API server: reviews, logs and events.
func (s *Stage) API() http.Handler {
	routes := http.NewServeMux()
	routes.HandleFunc("POST /apis/authentication.k8s.io/v1/tokenreviews", func(w http.ResponseWriter, r *http.Request) {
		var review authenticationapi.TokenReview
		if !read(w, r, &review) {
			return
		}
		token := review.Spec.Token
		if slices.Contains([]string{TokenAll, TokenOne, TokenLittle}, token) {
			review.Status = authenticationapi.TokenReviewStatus{Authenticated: true, User: authenticationapi.UserInfo{Username: s.evil("viewer-" + token), Groups: []string{token}}}
		}
		write(w, &review)
	})
	routes.HandleFunc("POST /apis/authorization.k8s.io/v1/subjectaccessreviews", func(w http.ResponseWriter, r *http.Request) {
		var review authorizationapi.SubjectAccessReview
		if read(w, r, &review) {
			review.Status.Allowed = allowed(review.Spec.Groups[0], review.Spec.ResourceAttributes)
			write(w, &review)
		}
	})
	routes.HandleFunc("GET /api/v1/namespaces/{namespace}/pods/{pod}/log", func(w http.ResponseWriter, r *http.Request) {
		if s.may(w, r, "pods") {
			w.Header().Set("Content-Type", "text/plain")
			for step := range 60 {
				fmt.Fprintf(w, "\x1b[32mStep\x1b[0m %6d  Temp %8.3f  E_pair %12.4f  Press %9.2f\n", step*100, 300+float64(step%7)/3, -113.27-float64(step%5)/100, 437.5+float64(step%11))
			}
			fmt.Fprintln(w, s.Evil)
		}
	})
	routes.HandleFunc("GET /api/v1/namespaces/{namespace}/events", func(w http.ResponseWriter, r *http.Request) {
		if s.may(w, r, "events") {
			at := metav1.NewTime(s.Now)
			write(w, &corev1.EventList{Items: []corev1.Event{
				{Type: "Normal", Reason: "Admitted", Message: s.evil("Gets 16 nodes: node-[0001-0016]"), LastTimestamp: at, Count: 1},
				{Type: "Warning", Reason: s.evil("BrokersLate"), Message: s.evil("2 of 16 brokers are missing after 30s"), LastTimestamp: at, Count: 3},
			}})
		}
	})
	return routes
}

// may answers with an error unless the token of a request may read a resource of its namespace.
func (s *Stage) may(w http.ResponseWriter, r *http.Request, resource string) bool {
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	if allowed(token, &authorizationapi.ResourceAttributes{Resource: resource, Namespace: r.PathValue("namespace")}) {
		return true
	}
	status := apierrors.NewForbidden(schema.GroupResource{Resource: resource}, r.PathValue("pod"), errors.New("the user may not")).Status()
	status.Kind, status.APIVersion = "Status", "v1"
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusForbidden)
	_ = json.NewEncoder(w).Encode(status)
	return false
}

func allowed(token string, what *authorizationapi.ResourceAttributes) bool {
	switch token {
	case TokenAll:
		return true
	case TokenOne:
		return what.Namespace == spaces[0] || what.Resource == "nodes" || what.Resource == "miniclusterqueues"
	case TokenLittle:
		return what.Namespace == spaces[0] && what.Resource == "miniclusters"
	}
	return false
}

func read(w http.ResponseWriter, r *http.Request, object any) bool {
	if err := json.NewDecoder(r.Body).Decode(object); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return false
	}
	return true
}

func write(w http.ResponseWriter, object any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(object)
}
