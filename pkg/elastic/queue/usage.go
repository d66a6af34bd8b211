// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"
)

// Spent is usage: amounts of resources times seconds, by resource. It does not depend on how large the cluster was. It decays
// exponentially, as in Slurm's multifactor priority.
type Spent map[string]float64

// WholeCluster is a resource of which each cluster is one. Earlier managers recorded usage in it.
const WholeCluster = "cluster"

// add adds amounts that were held for some seconds.
func (s Spent) add(amounts Resources, seconds float64) {
	for name, amount := range amounts {
		if amount > 0 && seconds > 0 {
			s[name] += float64(amount) * seconds
		}
	}
}

// times is a part of the usage.
func (s Spent) times(part float64) Spent {
	out := make(Spent, len(s))
	for name, spent := range s {
		out[name] = spent * part
	}
	return out
}

// Share is the usage in seconds of a whole cluster, by its dominant resource.
func (s Spent) Share(total Resources) float64 {
	share := 0.0
	for name, total := range total {
		if total > 0 {
			share = max(share, s[name]/float64(total))
		}
	}
	return s[WholeCluster] + share
}

// Unit is how much of a resource is one for users: amounts of cpu are millicores.
func Unit(resource string) float64 {
	if resource == "cpu" {
		return 1000
	}
	return 1
}

// Decayed is the part of usage that is left after some time.
func Decayed(halfLife, elapsed time.Duration) float64 {
	if halfLife <= 0 || elapsed <= 0 {
		return 1
	}
	return math.Exp2(-elapsed.Seconds() / halfLife.Seconds())
}

// Accrued are the seconds that count of a time in which something was held: the integral over that time, decayed from each
// moment on.
func Accrued(halfLife, held time.Duration) float64 {
	if held <= 0 {
		return 0
	}
	if halfLife <= 0 {
		return held.Seconds()
	}
	return lifetime(halfLife) * -math.Expm1(-held.Seconds()/lifetime(halfLife))
}

// lifetime is the mean time in seconds for which usage counts. Who holds something for ever has a usage of that times this time.
func lifetime(halfLife time.Duration) float64 { return halfLife.Seconds() / math.Ln2 }

// Account is what the users of a queue have used until a time, and what they hold since then.
type Account struct {
	At time.Time
	// Usage is the usage by user until At. Users that are not listed have none.
	Usage map[string]Spent
	// Holds is what the users hold since At.
	Holds map[string]Resources
}

// Until is the usage by user until a later time.
func (a *Account) Until(now time.Time, halfLife time.Duration) map[string]Spent {
	elapsed := now.Sub(a.At)
	usage := make(map[string]Spent, len(a.Usage))
	for user, used := range a.Usage {
		usage[user] = used.times(Decayed(halfLife, elapsed))
	}
	for user, holds := range a.Holds {
		if usage[user] == nil {
			usage[user] = Spent{}
		}
		usage[user].add(holds, Accrued(halfLife, elapsed))
	}
	return usage
}

// Stay is a time in which a gang of a user held resources.
type Stay struct {
	User     string
	Holds    Resources
	From, To time.Time
}

// Recover returns the account at a time after a restart. It goes on from an account that was recorded,
// with the stays since then. What a stay used before is part of the record.
func (a *Account) Recover(stays []Stay, now time.Time, halfLife time.Duration) Account {
	recovered := Account{At: now, Usage: (&Account{At: a.At, Usage: a.Usage}).Until(now, halfLife)}
	if now.Before(a.At) { // recorded by another clock
		recovered.At = a.At
	}
	for _, stay := range stays {
		from := stay.From
		if from.Before(a.At) {
			from = a.At
		}
		if seconds := Accrued(halfLife, stay.To.Sub(from)); seconds > 0 {
			if recovered.Usage[stay.User] == nil {
				recovered.Usage[stay.User] = Spent{}
			}
			recovered.Usage[stay.User].add(stay.Holds, seconds*Decayed(halfLife, now.Sub(stay.To)))
		}
	}
	return recovered
}

// least is the smallest usage that counts, in seconds of the whole cluster: what a status shows as more than 0.
const least = 0.0005

// Settle reckons the usage until now. The users of a queue have what a cycle found; the others have nothing any more. Of
// these, as many are kept as have the most usage, by what the cluster holds in total. While it holds nothing, nobody knows who
// that is, and all are kept.
func (a *Account) Settle(now time.Time, halfLife time.Duration, uses []UserUse, total Resources, most int) {
	a.Usage, a.Holds = a.Until(now, halfLife), make(map[string]Resources, len(uses))
	if now.After(a.At) {
		a.At = now
	}
	for _, use := range uses {
		a.Holds[use.User] = use.Holds
	}
	if !slices.ContainsFunc(slices.Collect(maps.Values(total)), func(amount int64) bool { return amount > 0 }) {
		return
	}
	shares := map[string]float64{} // of the others
	for user, used := range a.Usage {
		if _, there := a.Holds[user]; there {
			continue
		}
		if shares[user] = used.Share(total); shares[user] < least {
			delete(shares, user)
			delete(a.Usage, user)
		}
	}
	others := slices.SortedFunc(maps.Keys(shares), func(x, y string) int { return cmp.Or(cmp.Compare(shares[y], shares[x]), cmp.Compare(x, y)) })
	for _, user := range others[min(most, len(others)):] {
		delete(a.Usage, user)
	}
}
