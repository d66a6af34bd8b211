// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package minicluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
)

// DNS is what the manager knows of the cluster's DNS.
type DNS struct {
	// Domain is the domain of the cluster; "" if it is not known.
	Domain string
	// LookupHost is that of a net.Resolver.
	LookupHost func(ctx context.Context, host string) ([]string, error)

	// mutex guards the answers, and the namespaces for which the DNS is being asked.
	mutex   sync.Mutex
	answers map[string]answer
	asking  map[string]bool
}

// answer says whether the DNS lacks a domain, and when it was asked.
type answer struct {
	lacks bool
	at    time.Time
}

// ClusterDomain is the domain of the cluster by the resolv.conf(5) of a pod: kubelets write svc.<domain> in the search list.
// It is "" if the file is not that of a pod.
func ClusterDomain(resolvConf string) string {
	for line := range strings.Lines(resolvConf) {
		words := strings.Fields(line)
		if len(words) == 0 || words[0] != "search" {
			continue
		}
		for _, word := range words[1:] {
			if domain, ok := strings.CutPrefix(word, "svc."); ok {
				return strings.TrimSuffix(domain, ".")
			}
		}
	}
	return ""
}

const (
	// lookupTime bounds how long the DNS is waited for.
	lookupTime = 2 * time.Second
	// An answer is believed for answerTime, and the newest mostAnswers are kept.
	answerTime  = time.Minute
	mostAnswers = 64
	// mostAsking is how many namespaces may ask the DNS at once: each of them occupies a worker of the manager.
	mostAsking = 4
)

// wrongDomain says that brokers could not find each other, since the cluster's DNS does not have their domain; "" if it does,
// or if the DNS does not say. Users name the domains, so the DNS is asked once at a time for a namespace. Meanwhile an old
// answer counts; known is false if there is none.
func (d *DNS) wrongDomain(ctx context.Context, mc *v1alpha2.MiniCluster, now time.Time) (wrong string, known bool) {
	domain := mc.Spec.Network.ClusterDomain
	if d == nil || d.Domain == "" || domain == d.Domain || mc.Spec.MostSize() == 1 {
		return "", true
	}
	lacks, known := d.ask(ctx, mc.Namespace, domain, now)
	if !lacks {
		return "", known
	}
	return fmt.Sprintf("spec.network.clusterDomain is %q, which the DNS of this cluster does not have; the domain of this cluster is %q", domain, d.Domain), true
}

// ask reports whether the DNS lacks a domain, by an answer of before or a new one.
func (d *DNS) ask(ctx context.Context, namespace, domain string, now time.Time) (lacks, known bool) {
	last, mayAsk := d.begin(namespace, domain, now)
	if last != nil || !mayAsk {
		return last != nil && last.lacks, last != nil
	}
	a := answer{at: now}
	defer func() { d.end(namespace, domain, a) }()
	a.lacks = d.lacks(ctx, domain)
	return a.lacks, true
}

// begin returns what is known of a domain; nil if nothing is. mayAsk is true for who asks the DNS for the namespace.
func (d *DNS) begin(namespace, domain string, now time.Time) (last *answer, mayAsk bool) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	if a, is := d.answers[domain]; is {
		last = &a
	}
	if d.asking[namespace] || len(d.asking) >= mostAsking || last != nil && now.Sub(last.at) <= answerTime {
		return last, false
	}
	if d.asking == nil {
		d.asking = map[string]bool{}
	}
	d.asking[namespace] = true
	return nil, true
}

// end notes an answer for which the DNS was asked.
func (d *DNS) end(namespace, domain string, a answer) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	if d.answers == nil {
		d.answers = map[string]answer{}
	}
	delete(d.asking, namespace)
	d.answers[domain] = a
	if len(d.answers) > mostAnswers {
		delete(d.answers, slices.MinFunc(slices.Collect(maps.Keys(d.answers)), func(a, b string) int { return d.answers[a].at.Compare(d.answers[b].at) }))
	}
}

// lacks reports whether the DNS says that it does not have a domain. A DNS may have several.
func (d *DNS) lacks(ctx context.Context, domain string) bool {
	ctx, cancel := context.WithTimeout(ctx, lookupTime)
	defer cancel()
	_, err := d.LookupHost(ctx, "kubernetes.default.svc."+domain+".")
	var answer *net.DNSError
	return errors.As(err, &answer) && answer.IsNotFound
}
