// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Usage is measured in seconds of the whole cluster: a part of the cluster's dominant resource times
// seconds. It decays exponentially, as in Slurm's multifactor priority.

// Decayed is what is left of usage after some time.
func Decayed(usage float64, halfLife, elapsed time.Duration) float64 {
	if halfLife <= 0 || elapsed <= 0 {
		return usage
	}
	return usage * math.Exp2(-elapsed.Seconds()/halfLife.Seconds())
}

// Accrued is the usage of who has held a share of the cluster for some time. It is the integral of the
// share over that time, decayed from each moment on.
func Accrued(share float64, halfLife, held time.Duration) float64 {
	if held <= 0 {
		return 0
	}
	if halfLife <= 0 {
		return share * held.Seconds()
	}
	return share * lifetime(halfLife) * -math.Expm1(-held.Seconds()/lifetime(halfLife))
}

// lifetime is the mean time in seconds for which usage counts. Who holds a share for ever has a usage
// of the share times this time.
func lifetime(halfLife time.Duration) float64 { return halfLife.Seconds() / math.Ln2 }

// Account is what the users of a queue have used until a time, and what they hold since then.
type Account struct {
	At time.Time
	// Usage is the usage by user until At. Users that are not listed have none.
	Usage map[string]float64
	// Shares are the parts of the cluster that the users hold since At.
	Shares map[string]float64
}

// Until is the usage by user until a later time.
func (a *Account) Until(now time.Time, halfLife time.Duration) map[string]float64 {
	elapsed := now.Sub(a.At)
	usage := make(map[string]float64, len(a.Usage))
	for user, used := range a.Usage {
		usage[user] = Decayed(used, halfLife, elapsed)
	}
	for user, share := range a.Shares {
		usage[user] += Accrued(share, halfLife, elapsed)
	}
	return usage
}

// Stay is a time in which a gang of a user held a share of the cluster.
type Stay struct {
	User     string
	Share    float64
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
		if used := Accrued(stay.Share, halfLife, stay.To.Sub(from)); used > 0 {
			recovered.Usage[stay.User] += Decayed(used, halfLife, now.Sub(stay.To))
		}
	}
	return recovered
}

// least is the smallest usage that counts: what a status records as more than 0.
const least = 0.0005

// Settle reckons the usage until now. The users of a queue have what a cycle found; the others have
// nothing any more. Of these, as many are kept as have the most usage.
func (a *Account) Settle(now time.Time, halfLife time.Duration, uses []UserUse, most int) {
	a.Usage, a.Shares = a.Until(now, halfLife), make(map[string]float64, len(uses))
	if now.After(a.At) {
		a.At = now
	}
	for _, use := range uses {
		a.Shares[use.User] = use.Share
	}
	var others []string
	for user, used := range a.Usage {
		if _, there := a.Shares[user]; !there && used < least {
			delete(a.Usage, user)
		} else if !there {
			others = append(others, user)
		}
	}
	slices.SortFunc(others, func(x, y string) int { return cmp.Or(cmp.Compare(a.Usage[y], a.Usage[x]), cmp.Compare(x, y)) })
	for _, user := range others[min(most, len(others)):] {
		delete(a.Usage, user)
	}
}
