// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"gonum.org/v1/gonum/stat/distuv"
)

// job is one job of a workload.
type job struct {
	number int
	// arrival is when the job is submitted, from the start of the workload.
	arrival time.Duration
	// size is the number of nodes that the job wants. A moldable job starts with as few as least
	// nodes; a malleable one changes its size while it runs, too.
	size, least int
	malleable   bool
	// checkpoint is how long the job takes to write a checkpoint, after which it goes on at another size, or in its next
	// attempt; 0 if it writes none.
	checkpoint time.Duration
	// run is how long the job runs on size nodes, and estimate is what its user says.
	run, estimate time.Duration
	// unlimited is true if the queue knows no time limit of the job, and known if it knows the estimate all the same, as if
	// that was learned. The textbook schedulers always know the estimate.
	unlimited, known bool
	priority         int32
	queue            string
	// variance is that of the parallelism in Downey's model.
	variance float64
}

// slower is how many times longer the job runs on n nodes than on size nodes.
func (j *job) slower(n int) float64 {
	return speedup(float64(j.size), float64(j.size), j.variance) / speedup(float64(n), float64(j.size), j.variance)
}

// on is how long the job runs on n nodes.
func (j *job) on(n int) time.Duration { return time.Duration(float64(j.run) * j.slower(n)) }

// limit is the time limit that the user sets: it has to suffice for the smallest size.
func (j *job) limit() time.Duration {
	return time.Duration(math.Ceil(float64(j.estimate) * j.slower(j.least)))
}

// speedup is that of a program with a mean parallelism, and a variance of it from 0 to 2, on n
// nodes (Downey, A parallel workload model and its implications for processor allocation, 1997).
func speedup(n, parallelism, variance float64) float64 {
	a, s := parallelism, variance
	switch {
	case s >= 1 && n <= a+a*s-s:
		return n * a * (s + 1) / (s*(n+a-1) + a)
	case s < 1 && n <= a:
		return a * n / (a + s*(n-1)/2)
	case s < 1 && n <= 2*a-1:
		return a * n / (s*(a-0.5) + n*(1-s/2))
	default:
		return a
	}
}

// The parameters for all jobs together, without a difference between batch and interactive jobs,
// of Lublin and Feitelson, The workload on parallel supercomputers: modeling the characteristics
// of rigid jobs, 2003.
const (
	serialJobs   = 0.244
	powersOfTwo  = 0.576
	smallestLog2 = 0.8
	mediumBelow  = 2.5 // below the log2 of the machine's size
	mostAreSmall = 0.86

	shortAlpha, shortBeta   = 4.2, 0.94
	longAlpha, longBeta     = 312, 0.03
	shortSlope, shortOffset = -0.0054, 0.78
	longestRun              = 12 // e^12 s

	arrivalAlpha, arrivalBeta = 10.2303 * 1.0225, 0.4871
	cycleAlpha, cycleBeta     = 8.1737, 3.9631
	longestPause              = 13 // e^13 s
	slots                     = 48 // of a day
	firstSlot                 = 11 // in which the cycle of a day begins
	slotSeconds               = 24 * 60 * 60 / slots
)

// lublin makes n rigid jobs for a machine, by the model of Lublin and Feitelson. Users estimate
// their run times well: see estimated.
func lublin(random *rand.Rand, n, nodes int) []*job {
	arrivals := newArrivals(random)
	jobs := make([]*job, n)
	for i := range jobs {
		size := lublinSize(random, nodes)
		run := lublinRun(random, size)
		jobs[i] = &job{number: i, arrival: arrivals.next(), size: size, least: size, run: run, estimate: run, queue: "default"}
	}
	return jobs
}

func lublinSize(random *rand.Rand, nodes int) int {
	u, largest := random.Float64(), math.Log2(float64(nodes))
	if u <= serialJobs {
		return 1
	}
	medium := largest - mediumBelow
	low, high := smallestLog2, medium
	if random.Float64() > mostAreSmall {
		low, high = medium, largest
	}
	power := low + random.Float64()*(high-low)
	if u <= serialJobs+powersOfTwo {
		power = math.Round(power)
	}
	return min(int(math.Round(math.Exp2(power))), nodes)
}

func lublinRun(random *rand.Rand, size int) time.Duration {
	p := min(max(shortSlope*float64(size)+shortOffset, 0), 1)
	for {
		alpha, beta := longAlpha+0.0, longBeta
		if random.Float64() <= p {
			alpha, beta = shortAlpha, shortBeta
		}
		if log := gamma(random, alpha, beta).Rand(); log <= longestRun {
			return max(seconds(math.Exp(log)), time.Second)
		}
	}
}

// gamma is a gamma distribution with a shape and a scale.
func gamma(random *rand.Rand, shape, scale float64) distuv.Gamma {
	return distuv.Gamma{Alpha: shape, Beta: 1 / scale, Src: random}
}

func seconds(s float64) time.Duration {
	return time.Duration(s * float64(time.Second)).Round(time.Second)
}

// arrivals are the times at which jobs arrive: more of them by day than by night.
type arrivals struct {
	pauses distuv.Gamma
	// weights are how many jobs arrive in each slot of a day, relative to the mean.
	weights [slots]float64
	slot    int
	now     float64 // seconds, at the beginning of the slot
	used    float64 // of the slot's weight
}

func newArrivals(random *rand.Rand) *arrivals {
	a := &arrivals{pauses: gamma(random, arrivalAlpha, arrivalBeta)}
	cycle, sum := gamma(random, cycleAlpha, cycleBeta), 0.0
	for i := firstSlot; i < firstSlot+slots; i++ {
		weight := cycle.CDF(float64(i)+0.5) - cycle.CDF(float64(i)-0.5)
		a.weights[(i-1)%slots] = weight
		sum += weight
	}
	for i := range a.weights {
		a.weights[i] *= slots / sum
	}
	return a
}

// next is the next arrival. A pause passes faster in a slot in which more jobs arrive.
func (a *arrivals) next() time.Duration {
	pause := a.pauses.Rand()
	for pause > longestPause {
		pause = a.pauses.Rand()
	}
	left := math.Exp(pause) / slotSeconds
	for left > a.weights[a.slot]-a.used {
		left -= a.weights[a.slot] - a.used
		a.slot, a.used, a.now = (a.slot+1)%slots, 0, a.now+slotSeconds
	}
	a.used += left
	return seconds(a.now + slotSeconds*a.used/a.weights[a.slot])
}

// loaded moves the arrivals so that the jobs need a part of the time of all nodes, the load, until
// the last of them arrives.
func loaded(jobs []*job, nodes int, load float64) []*job {
	area := 0.0
	for _, j := range jobs {
		area += float64(j.size) * j.run.Seconds()
	}
	stretch := area / (float64(nodes) * load) / jobs[len(jobs)-1].arrival.Seconds()
	for _, j := range jobs {
		j.arrival = seconds(j.arrival.Seconds() * stretch)
	}
	return jobs
}

// roundLimits are the minutes that users choose as time limit, rising (Tsafrir et al.).
var roundLimits = []float64{1, 5, 10, 15, 20, 30, 60, 120, 180, 240, 300, 360, 480, 600, 720, 1080, 1440, 2160, 2880}

// estimated gives the jobs estimates as users do (Tsafrir, Etsion, Feitelson, Modeling user
// runtime estimates, 2005): a fifth is exact, the others are 2 to 10 times too long, and round.
func estimated(random *rand.Rand, jobs []*job) []*job {
	for _, j := range jobs {
		if random.Float64() < 0.2 {
			continue
		}
		minutes := j.run.Minutes() * (2 + 8*random.Float64())
		i, _ := slices.BinarySearch(roundLimits, minutes)
		j.estimate = max(seconds(60*roundLimits[min(i, len(roundLimits)-1)]), j.run)
	}
	return jobs
}

// flexible makes a part of the jobs moldable, or malleable: they run on a quarter of their nodes,
// too.
func flexible(random *rand.Rand, jobs []*job, part float64, malleable bool) []*job {
	for _, j := range jobs {
		if random.Float64() < part && j.size > 1 {
			j.least, j.malleable, j.variance = max(j.size/4, 1), malleable, 2*random.Float64()
		}
	}
	return jobs
}

// restarted makes a part of the jobs malleable that are run again after a checkpoint of 10 s to 2 min.
func restarted(random *rand.Rand, jobs []*job, part float64) []*job {
	for _, j := range flexible(random, jobs, part, true) {
		if j.malleable {
			j.checkpoint = seconds(10 * math.Pow(12, random.Float64()))
		}
	}
	return jobs
}

// prioritized gives a tenth of the jobs a higher priority.
func prioritized(random *rand.Rand, jobs []*job) []*job {
	for _, j := range jobs {
		if random.Float64() < 0.1 {
			j.priority = 1
		}
	}
	return jobs
}

// withoutLimits takes the time limits from a part of the jobs.
func withoutLimits(random *rand.Rand, jobs []*job, part float64, known bool) []*job {
	for _, j := range jobs {
		j.unlimited, j.known = random.Float64() < part, known
	}
	return jobs
}

// queued puts half of the jobs into a second queue.
func queued(random *rand.Rand, jobs []*job) []*job {
	for _, j := range jobs {
		if random.Float64() < 0.5 {
			j.queue = "second"
		}
	}
	return jobs
}
