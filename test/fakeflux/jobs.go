// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"github.com/flux-elastic/flux-elastic/pkg/fluxion/idset"
)

// jobspec is what is asked for.
type jobspec struct {
	Nodes, Tasks  int    // 0 where it is not said
	Cores         int    // of each task
	Ranks         string // on which it may run, an idset; "": on all
	Command       []string
	Environment   []string
	Directory     string
	Output, Error string // files; "" or kvs keeps it for those who watch
	Label         bool   // whether lines in files begin with the rank of their task
	Waitable      bool
	Batch         bool   // starts when there is room, and takes none of it
	Inside        string // the batch job that it is of; "" if none
}

// The states of a job, as flux jobs abbreviates them.
const (
	pending   = "S"
	running   = "R"
	completed = "CD"
	failed    = "F"
)

type job struct {
	jobspec
	id        int
	state     string
	tasks     []int           // the rank of each
	holds     map[int][]int64 // cores by rank
	processes []*exec.Cmd
	ended     chan struct{}
	code      int
	exception string
	output    []chunk
	reaped    bool // by flux job wait
}

func (j *job) isRunning() bool { return j.state == running }
func (j *job) isActive() bool  { return j.state == pending || j.state == running }
func (j *job) name() string    { return "ƒ" + strconv.Itoa(j.id) }

// submit adds a job, which begins as soon as there is room. The caller has the lock.
func (i *instance) submit(spec jobspec) *job {
	j := &job{jobspec: spec, id: len(i.jobs) + 1, state: pending, ended: make(chan struct{})}
	i.jobs = append(i.jobs, j)
	if _, ok := spec.place(i.cores, i.cores); !ok {
		i.fail(j, "job.exception: type=alloc severity=0 unsatisfiable request", 1)
	}
	i.save()
	return j
}

// fail ends a job that has not begun.
func (i *instance) fail(j *job, exception string, code int) {
	j.state, j.exception, j.code = failed, exception, code
	close(j.ended)
}

// schedule begins jobs in their order, as long as there is room.
func (i *instance) schedule() {
	for _, j := range i.jobs {
		if i.closing {
			return
		}
		if j.state != pending {
			continue
		}
		placement, ok := j.place(i.free(), i.cores)
		if !ok {
			return
		}
		i.begin(j, placement)
	}
}

// free are the cores of each rank that a job can have.
func (i *instance) free() [][]int64 {
	free := make([][]int64, len(i.cores))
	for rank := range i.cores {
		if i.isSchedulable(rank) {
			used := i.allocated(rank)
			free[rank] = slices.DeleteFunc(slices.Clone(i.cores[rank]), func(core int64) bool { return slices.Contains(used, core) })
		}
	}
	return free
}

func (i *instance) isSchedulable(rank int) bool {
	_, drained := i.drained[rank]
	return i.isUp(rank) && !drained
}

// allocated are the cores of a rank that jobs have.
func (i *instance) allocated(rank int) []int64 {
	var used []int64
	for _, j := range i.jobs {
		if j.state == running {
			used = append(used, j.holds[rank]...)
		}
	}
	slices.Sort(used)
	return used
}

type placement struct {
	tasks []int
	holds map[int][]int64
}

// place chooses the lowest ranks that have room. Nodes alone means whole ones.
func (s *jobspec) place(free, all [][]int64) (placement, bool) {
	p := placement{holds: map[int][]int64{}}
	missing := max(s.Tasks, s.Nodes, 1)
	ranks, _ := idset.Parse(s.Ranks)
	for rank := range free {
		if missing == 0 {
			break
		}
		if s.Ranks != "" && !ranks.Has(int64(rank)) {
			continue
		}
		tasks := min(missing, len(free[rank])/s.Cores)
		cores := tasks * s.Cores
		if s.Nodes > 0 {
			// Those before get one more where it does not come out even.
			tasks = (missing + s.Nodes - len(p.holds) - 1) / (s.Nodes - len(p.holds))
			cores = tasks * s.Cores
			if s.Tasks == 0 {
				cores = len(all[rank])
			}
		}
		if tasks == 0 || cores == 0 || cores > len(free[rank]) {
			continue
		}
		p.holds[rank] = free[rank][:cores]
		for range tasks {
			p.tasks = append(p.tasks, rank)
		}
		missing -= tasks
	}
	if s.Batch {
		p.tasks, p.holds = []int{0}, nil
	}
	return p, missing == 0
}

// begin starts the tasks.
func (i *instance) begin(j *job, p placement) {
	j.state, j.tasks, j.holds = running, p.tasks, p.holds
	codes := make(chan int, len(j.tasks))
	for rank := range j.tasks {
		cmd, err := i.task(j, rank)
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			j.exception = fmt.Sprintf("job.exception: type=exec severity=0 task %d start failed: %v", rank, err)
			codes <- 127
			continue
		}
		j.processes = append(j.processes, cmd)
		go func() {
			code := exitCode(cmd.Wait())
			for _, output := range []io.Writer{cmd.Stdout, cmd.Stderr} {
				output.(io.Closer).Close()
			}
			codes <- code
		}()
	}
	go func() {
		worst := 0
		for range j.tasks {
			worst = max(worst, <-codes)
		}
		i.change(func() { i.end(j, worst) })
	}()
}

// task is the process of a task, in a group of its own.
func (i *instance) task(j *job, rank int) (*exec.Cmd, error) {
	if len(j.Command) == 0 {
		return nil, errors.New("no command")
	}
	local := 0
	for _, before := range j.tasks[:rank] {
		if before == j.tasks[rank] {
			local++
		}
	}
	cmd := exec.Command(j.Command[0], j.Command[1:]...)
	cmd.Dir = j.Directory
	cmd.Env = append(slices.Clone(j.Environment),
		"FLUX_URI="+i.attributes["local-uri"], "FLUX_JOB_ID="+j.name(),
		fmt.Sprint("FLUX_TASK_RANK=", rank), fmt.Sprint("FLUX_TASK_LOCAL_ID=", local),
		batchVariable+j.batch(), fmt.Sprint("FLUX_JOB_SIZE=", len(j.tasks)), fmt.Sprint("FLUX_JOB_NNODES=", max(len(j.holds), 1)))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd, i.redirect(j, rank, cmd)
}

// batchVariable tells a process the batch job that it is of.
const batchVariable = "FAKEFLUX_BATCH="

// batch is the batch job that what the job starts is of.
func (j *job) batch() string {
	if j.Batch {
		return j.name()
	}
	return j.Inside
}

// end gives back what the job holds.
func (i *instance) end(j *job, code int) {
	if j.exception != "" && code == 0 {
		code = 1
	}
	j.state, j.code, j.holds = completed, code, nil
	if code != 0 {
		j.state = failed
	}
	close(j.ended)
	i.save()
}

// cancel ends the tasks, with force after a while.
func (j *job) cancel() {
	if j.state != running {
		return
	}
	for _, process := range j.processes {
		signalGroup(process, syscall.SIGTERM)
	}
	go func() {
		ctx, stop := context.WithTimeout(context.Background(), patience)
		defer stop()
		select {
		case <-j.ended:
		case <-ctx.Done():
			for _, process := range j.processes {
				signalGroup(process, syscall.SIGKILL)
			}
		}
	}()
}

// lose ends the jobs that have a task on a rank which has gone.
func (i *instance) lose(rank int) {
	for _, j := range i.jobs {
		if j.state == running && slices.Contains(j.tasks, rank) {
			j.exception = fmt.Sprintf("job.exception: type=exec severity=0 node failure on %s (rank %d)", i.hosts[rank], rank)
			j.cancel()
		}
	}
}

// The state directory has the jobs that have not ended: like Flux, a lead that finds
// any there runs them again.

func (i *instance) stateFile() string { return filepath.Join(i.attributes["statedir"], "jobs.json") }

func (i *instance) save() {
	var active []jobspec
	for _, j := range i.jobs {
		if j.isActive() {
			active = append(active, j.jobspec)
		}
	}
	data, err := json.Marshal(active)
	if err == nil {
		err = os.WriteFile(i.stateFile(), data, 0o600)
	}
	if err != nil {
		fail("job-manager.err[0]: checkpoint: %v", err)
	}
}

func (i *instance) restore() error {
	data, err := os.ReadFile(i.stateFile())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var active []jobspec
	if err == nil {
		err = json.Unmarshal(data, &active)
	}
	if err != nil {
		return fmt.Errorf("job-manager: restart: %w", err)
	}
	i.log("restart: %d jobs", len(active))
	i.change(func() {
		for _, spec := range active {
			i.submit(spec)
		}
	})
	return nil
}
