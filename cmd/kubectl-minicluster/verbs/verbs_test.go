// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	"sigs.k8s.io/yaml"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/cmd/kubectl-minicluster/access"
	"github.com/flux-elastic/flux-elastic/internal/version"
)

// session returns a session without a cluster, at a fixed time.
func session(stdin string) (*access.Session, *bytes.Buffer) {
	var out bytes.Buffer
	s := access.New(strings.NewReader(stdin), &out, &out)
	s.Clock = clocktesting.NewFakeClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	return s, &out
}

// submitted runs submit without a cluster, and returns the MiniCluster or the error.
func submitted(stdin string, args ...string) (*v1alpha2.MiniCluster, error) {
	s, out := session(stdin)
	s.ErrOut = io.Discard
	s.Flags.Context.Namespace = "here"
	cmd := newSubmit(s, func(*v1alpha2.MiniCluster) error { return nil })
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(append([]string{"--dry-run=client"}, args...))
	mc := &v1alpha2.MiniCluster{}
	if err := cmd.Execute(); err != nil {
		return nil, err
	}
	return mc, yaml.UnmarshalStrict(out.Bytes(), mc)
}

func TestSubmit(t *testing.T) {
	mc, err := submitted("", "-N8-16", "-n", "64", "-t", "90m", "-q", "research", "--image=lammps", "--cpu=8", "--memory=16Gi", "--gpus=2", "-e", "A=b", "-l", "x=y",
		"--", "/opt/LMP_mpi", "-in", "my file", "-v", "$x")
	if err != nil {
		t.Fatal(err)
	}
	c, spec := mc.Spec.FluxContainer(), &mc.Spec
	if mc.Namespace != "here" || mc.GenerateName != "lmp-mpi-" || mc.Labels["x"] != "y" || spec.Size != 16 || spec.MinSize != 8 || *spec.Tasks != 64 ||
		*spec.DeadlineSeconds != 5400 || spec.Queue != "research" || c.Image != "lammps" || c.Environment["A"] != "b" {
		t.Errorf("%+v", mc)
	}
	if want := `/opt/LMP_mpi -in 'my file' -v '$x'`; c.Command != want {
		t.Errorf("command %s, want %s", c.Command, want)
	}
	for name, want := range map[corev1.ResourceName]string{"cpu": "8", "memory": "16Gi", "nvidia.com/gpu": "2"} {
		if got := c.Resources.Limits[name]; got.String() != want {
			t.Errorf("%s %s", name, got.String())
		}
	}
}

// Limits are written as for sbatch and flux submit.
func TestLimit(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"20": 20 * time.Minute, "90s": 90 * time.Second, "1h30m": 90 * time.Minute, "1.5h": 90 * time.Minute, "2d": 48 * time.Hour, "0:30": 30 * time.Second,
		"10:30": 10*time.Minute + 30*time.Second, "1:30:00": 90 * time.Minute, "2-12": 60 * time.Hour, "1-00:30": 24*time.Hour + 30*time.Minute, "1-2:3:4": 26*time.Hour + 3*time.Minute + 4*time.Second,
	} {
		var l limit
		if err := l.Set(text); err != nil || time.Duration(l) != want {
			t.Errorf("%s: %s, %v; want %s", text, &l, err, want)
		}
	}
	for _, text := range []string{"", "-", "x", "-5m", "0", "1:", "1:2:3:4", "123456d", "5 m", "20mm"} {
		if err := new(limit).Set(text); err == nil {
			t.Errorf("%q is a limit", text)
		}
	}
}

// A file and a flag that name different namespaces are an error, as in kubectl.
func TestSubmitNamespace(t *testing.T) {
	there := strings.Replace(template, "{name: lmp,", "{name: lmp, namespace: there,", 1)
	if _, err := submitted(there, "-f", "-"); err == nil || !strings.Contains(err.Error(), "--namespace=here: the namespace in - is there") {
		t.Errorf("got %v", err)
	}
	if mc, err := submitted(strings.Replace(there, "there", "here", 1), "-f", "-"); err != nil || mc.Namespace != "here" {
		t.Errorf("%v, %v", mc, err)
	}
}

const template = `
apiVersion: flux-framework.org/v1alpha2
kind: MiniCluster
metadata: {name: lmp, labels: {a: b}}
spec:
  size: 4
  minSize: 2
  queue: research
  containers:
    - {name: other, image: db}
    - {image: lammps, runFlux: true, command: lmp, resources: {requests: {cpu: "1"}, limits: {cpu: "1", memory: 1Gi}}}
`

// The flags change what they name, and nothing else.
func TestSubmitFile(t *testing.T) {
	mc, err := submitted(template, "-f", "-", "--name=two", "-N8", "--cpu=4", "-l", "c=d", "--", "echo a; echo b")
	if err != nil {
		t.Fatal(err)
	}
	c := mc.Spec.FluxContainer()
	if mc.Name != "two" || mc.Labels["a"]+mc.Labels["c"] != "bd" || mc.Spec.Size != 8 || mc.Spec.MinSize != 0 || mc.Spec.Queue != "research" ||
		len(mc.Spec.Containers) != 2 || c.Image != "lammps" || c.Command != "echo a; echo b" {
		t.Errorf("%+v", mc)
	}
	if cpu, memory := c.Resources.Limits.Cpu(), c.Resources.Limits.Memory(); cpu.String() != "4" || memory.String() != "1Gi" || len(c.Resources.Requests) != 0 {
		t.Errorf("%+v", c.Resources)
	}
}

// One document is submitted, also after a comment. Further ones would be lost.
func TestSubmitDocuments(t *testing.T) {
	if mc, err := submitted("# a comment\n---"+template+"---\n# the end\n", "-f", "-"); err != nil || mc.Name != "lmp" {
		t.Errorf("%v, %v", mc, err)
	}
	if _, err := submitted(template+"---"+template, "-f", "-"); err == nil || !strings.Contains(err.Error(), "-: it has more than one YAML document") {
		t.Errorf("got %v", err)
	}
}

func TestSubmitErrors(t *testing.T) {
	for want, args := range map[string][]string{
		"name an image":               {"--", "lmp"},
		"--nodes=0: it has":           {"--image=x", "-N0"},
		"--nodes=8-4: it has":         {"--image=x", "-N8-4"},
		"and not both":                {"--image=x", "-n4", "--ntasks-per-node=2"},
		"--ntasks-per-node=0: it has": {"--image=x", "--ntasks-per-node=0"},
		"are more than 100000000":     {"--image=x", "-N100000", "--ntasks-per-node=10000"},
		"--nodes=many: it has":        {"--image=x", "-Nmany"},
		"--cpu=x: quantities":         {"--image=x", "--cpu=x"},
		"it has to be at least 1s":    {"--image=x", "-t5ms"},
		"it has to be like 20m":       {"--image=x", "-tsoon"},
		"--dry-run=maybe: it has":     {"--image=x", "--dry-run=maybe"},
		"--output=wide: it has":       {"--image=x", "-owide"},
		"nowhere.yaml: no such file":  {"-f", "nowhere.yaml"},
		`-: its kind is "Pod"`:        {"-f", "-"},
		"unknown flag: --nodes-twice": {"--nodes-twice"},
	} {
		if _, err := submitted("kind: Pod", args...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: got %v, want %q", args, err, want)
		}
	}
}

// life returns a MiniCluster with conditions, each as TYPE=REASON; a reason that begins with ! is of a false condition.
func life(conditions ...string) *v1alpha2.MiniCluster {
	mc := &v1alpha2.MiniCluster{}
	mc.Name, mc.Spec.Size, mc.Spec.MinSize = "lmp", 4, 4
	for _, text := range conditions {
		name, reason, _ := strings.Cut(text, "=")
		c := metav1.Condition{Type: name, Status: metav1.ConditionTrue, Reason: strings.TrimPrefix(reason, "!"), Message: "Because"}
		if strings.HasPrefix(reason, "!") {
			c.Status = metav1.ConditionFalse
		}
		mc.Status.Conditions = append(mc.Status.Conditions, c)
	}
	return mc
}

func TestReached(t *testing.T) {
	finished := life("JobMiniClusterReady=Succeeded", "Finished=Succeeded")
	never := life("JobMiniClusterReady=!Failed", "Finished=StartLimitExceeded")
	exited := life("JobMiniClusterReady=Failed", "Finished=CommandFailed")
	exited.Status.ExitCode = new(int32(9))
	deleted := life()
	deleted.DeletionTimestamp = &metav1.Time{}
	rejected := life("Accepted=!Unsupported")
	edited := rejected.DeepCopy()
	edited.Generation = 2
	large := life("JobMiniClusterReady=!Queued", "Admitted=!NeverFits")
	resized := large.DeepCopy()
	resized.Generation = 2
	for name, tc := range map[string]struct {
		mc   *v1alpha2.MiniCluster
		goal string
		done bool
		code int
	}{
		"not yet":                   {life(), "admitted", false, 0},
		"admitted":                  {life("Admitted=Admitted"), "admitted", true, 0},
		"not running yet":           {life("Admitted=Admitted"), "running", false, 0},
		"running":                   {life("JobMiniClusterReady=Running"), "running", true, 0},
		"ran":                       {finished, "running", true, 0},
		"never ran":                 {never, "running", false, 1},
		"finished":                  {finished, "finished", true, 0},
		"failed":                    {exited, "finished", true, 9},
		"never began":               {never, "finished", true, 1},
		"rejected":                  {rejected, "finished", false, 1},
		"mended":                    {edited, "finished", false, 0},
		"never fits":                {large, "running", false, 1},
		"resized":                   {resized, "running", false, 0},
		"never fits, to be deleted": {large, "deleted", false, 0},
		"deleted meanwhile":         {deleted, "finished", false, 1},
		"deleted":                   {deleted, "deleted", true, 0},
		"finished, not gone":        {finished, "deleted", false, 0},
		"finished, not placed":      {never, "admitted", false, 1},
	} {
		done, err := reached(tc.mc, tc.goal)
		code := 0
		if exit := new(access.ExitError); errors.As(err, &exit) {
			code = exit.Code
		} else if err != nil {
			code = access.CodeFailed
		}
		if done != tc.done || code != tc.code {
			t.Errorf("%s: got %t, %v; want %t, %d", name, done, err, tc.done, tc.code)
		}
	}
}

// endedWatch begins a watch that ends at once.
func endedWatch(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) (watch.Interface, error) {
	ended := watch.NewFake()
	ended.Stop()
	return ended, nil
}

// A MiniCluster that is being deleted, and is gone when a watch has ended, is reported as gone.
func TestFollowDeletion(t *testing.T) {
	ending := life()
	ending.UID, ending.DeletionTimestamp, ending.Finalizers = "u", &metav1.Time{}, []string{metav1.FinalizerDeleteDependents}
	lists := [][]v1alpha2.MiniCluster{{*ending}, {}}
	c := interceptor.NewClient(fake.NewFakeClient(), interceptor.Funcs{
		List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, _ ...client.ListOption) error {
			if len(lists) == 0 {
				return errors.New("it was listed again")
			}
			list.(*v1alpha2.MiniClusterList).Items, lists = lists[0], lists[1:]
			return nil
		},
		Watch: endedWatch,
	})
	var states []string
	s, _ := session("")
	err := follow(t.Context(), s, c, nil, func(mc *v1alpha2.MiniCluster) (bool, error) {
		states = append(states, stateOf(mc))
		return isGone(mc), nil
	})
	if want := []string{"Deleting", "Deleted"}; err != nil || !slices.Equal(states, want) {
		t.Errorf("got %v, %v, want %v", states, err, want)
	}
}

// A wait goes on after trouble of the API server that passes, and says so once. Other errors end it.
func TestWaitInsists(t *testing.T) {
	there, finished := life(), life("JobMiniClusterReady=Succeeded", "Finished=Succeeded")
	there.Spec.Containers, finished.ResourceVersion = []v1alpha2.MiniClusterContainer{{}}, "2"
	away := apierrors.NewServiceUnavailable("it restarts")
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "miniclusters"}, "", errors.New("no right"))
	for name, tc := range map[string]struct {
		lists []error
		told  int
		fails bool
	}{
		"trouble that passes":                             {[]error{away, away, nil}, 1, false},
		"an API server that starts, and has no roles yet": {[]error{nil, forbidden, forbidden, nil}, 1, false},
		"a missing right":                                 {[]error{forbidden}, 0, true},
	} {
		lists := tc.lists
		c := interceptor.NewClient(fake.NewFakeClient(), interceptor.Funcs{
			Get: func(_ context.Context, _ client.WithWatch, _ client.ObjectKey, mc client.Object, _ ...client.GetOption) error {
				there.DeepCopyInto(mc.(*v1alpha2.MiniCluster))
				return nil
			},
			List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, _ ...client.ListOption) error {
				err := lists[0]
				if lists = lists[1:]; len(lists) == 0 {
					list.(*v1alpha2.MiniClusterList).Items = []v1alpha2.MiniCluster{*finished}
				} else {
					list.(*v1alpha2.MiniClusterList).Items = []v1alpha2.MiniCluster{*there}
				}
				return err
			},
			Watch: endedWatch,
		})
		s, out := session("")
		s.Clock = &hasty{clocktesting.NewFakeClock(time.Now())}
		err := await(t.Context(), s, c, client.ObjectKey{Name: "lmp"}, "finished", 0)
		if told := strings.Count(out.String(), "trying again: "); (err != nil) != tc.fails || told != tc.told {
			t.Errorf("%s: %v, told %d times: %s", name, err, told, out)
		}
	}
}

// hasty is a clock on which no time passes until a wait is over.
type hasty struct{ *clocktesting.FakeClock }

func (h *hasty) After(time.Duration) <-chan time.Time {
	over := make(chan time.Time)
	close(over)
	return over
}

// A MiniCluster that goes before it is watched is gone, and nobody waits for it.
func TestWaitForOneThatGoes(t *testing.T) {
	there := life()
	there.UID, there.Spec.Containers = "u", []v1alpha2.MiniClusterContainer{{}}
	c := interceptor.NewClient(fake.NewFakeClient(), interceptor.Funcs{
		Get: func(_ context.Context, _ client.WithWatch, _ client.ObjectKey, mc client.Object, _ ...client.GetOption) error {
			there.DeepCopyInto(mc.(*v1alpha2.MiniCluster))
			return nil
		},
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return nil },
	})
	for goal, want := range map[string]string{"deleted": "", "finished": "lmp was deleted"} {
		s, _ := session("")
		err := await(t.Context(), s, c, client.ObjectKey{Name: "lmp"}, goal, 0)
		if got := fmt.Sprint(err); err == nil && want != "" || err != nil && got != want {
			t.Errorf("%s: got %v, want %q", goal, err, want)
		}
	}
}

// broken is a log that breaks off.
type broken struct{ io.Reader }

func (b broken) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if errors.Is(err, io.EOF) {
		err = errors.New("the connection is lost")
	}
	return n, err
}

// A log goes on where it broke off: no line is lost, and none is printed twice.
func TestLogGoesOn(t *testing.T) {
	s, out := session("")
	l := &logger{Session: s}
	lines := []string{"2026-03-01T12:00:00.1Z one\n", "2026-03-01T12:00:00.2Z \n", "2026-03-01T12:00:00.3Z two  words\n", "2026-03-01T12:00:01Z three"}
	for _, stream := range []struct {
		io.Reader
		whole bool
	}{
		{broken{strings.NewReader(lines[0] + lines[1] + lines[2][:30])}, false},
		{broken{strings.NewReader(lines[0])}, false},
		{strings.NewReader(strings.Join(lines, "")), true},
		{strings.NewReader(strings.Join(lines, "")), true},
	} {
		if whole, err := l.copy(stream); err != nil || whole != stream.whole {
			t.Errorf("it is whole: %t, %v", whole, err)
		}
	}
	if want := "one\n\ntwo  words\nthree"; out.String() != want {
		t.Errorf("got %q, want %q", out, want)
	}
}

// A log that begins long after the command may lack a part, which is said once. The last lines alone say nothing of that.
func TestLogWasRotated(t *testing.T) {
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		rank         int
		began, start time.Time // of the container, and of the command
		tail         int64
		told         bool
	}{
		"a first line soon":                      {0, noon.Add(-time.Minute), noon.Add(-time.Second), -1, false},
		"a first line long after the command":    {0, noon.Add(-2 * time.Hour), noon.Add(-time.Hour), -1, true},
		"a lead that waited for the brokers":     {0, noon.Add(-2 * time.Hour), noon.Add(-time.Second), -1, false},
		"a follower":                             {1, noon.Add(-time.Hour), noon.Add(-time.Second), -1, true},
		"the last lines are all that was wanted": {0, noon.Add(-2 * time.Hour), noon.Add(-time.Hour), 2, false},
	} {
		s, out := session("")
		errOut := &bytes.Buffer{}
		s.ErrOut = errOut
		l := &logger{Session: s, rank: tc.rank, tail: tc.tail}
		mc := &v1alpha2.MiniCluster{}
		mc.Status.StartTime = new(metav1.NewTime(tc.start))
		status := corev1.ContainerStatus{ContainerID: "1", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(tc.began)}}}
		l.options(mc, container{status: status})
		for range 2 {
			if _, err := l.copy(strings.NewReader("2026-03-01T12:00:00Z one\n2026-03-01T12:00:01Z two\n")); err != nil {
				t.Fatal(err)
			}
			l.options(mc, container{status: status})
		}
		if told := strings.Count(errOut.String(), "This log begins 1h0m0s after the command"); (told == 1) != tc.told || out.String() != "one\ntwo\n" {
			t.Errorf("%s: it is told %q beside %q", name, errOut, out)
		}
	}
}

// waitsFor returns a MiniCluster that waits with a reason and its message.
func waitsFor(reason, message string) *v1alpha2.MiniCluster {
	mc := life("JobMiniClusterReady=!Queued", "Admitted=!"+reason)
	mc.Status.Conditions[0].Message = message
	return mc
}

// The table has the columns of squeue. A queue says who its users are.
func TestListTable(t *testing.T) {
	s, out := session("")
	l := &lister{Session: s, format: "table", queues: map[string]*v1alpha2.MiniClusterQueue{
		"default": {Spec: v1alpha2.MiniClusterQueueSpec{Users: &v1alpha2.QueueUsers{Label: "owner"}}},
	}}
	runs, elastic, rigid := life("JobMiniClusterReady=Running"), waitsFor("NoRoom", ""), waitsFor("WaitingForTurn", "")
	done := life("JobMiniClusterReady=!Failed", "Finished=CommandFailed")
	runs.Status.StartTime, runs.Status.Nodes = &metav1.Time{Time: s.Clock.Now().Add(-90 * time.Second)}, 2
	runs.Status.Admission = &v1alpha2.Admission{Nodes: "n[1-2]", Attempt: 3, Size: 4}
	runs.Spec.DeadlineSeconds, rigid.Spec.DeadlineSeconds = new(int64(1200)), new(int64(3600))
	runs.Labels, elastic.Spec.MinSize, rigid.Spec.Queue = map[string]string{"owner": "ada"}, 2, "research"
	var items []v1alpha2.MiniCluster
	for _, mc := range []*v1alpha2.MiniCluster{runs, elastic, rigid, done} {
		mc.Namespace, mc.Spec.Containers = "here", []v1alpha2.MiniClusterContainer{{}}
		mc.CreationTimestamp.Time = s.Clock.Now().Add(-time.Hour)
		items = append(items, *mc)
	}
	lines := func() []string {
		out.Reset()
		l.headed = false
		if err := l.print(items); err != nil {
			t.Fatal(err)
		}
		return strings.Split(strings.TrimSpace(out.String()), "\n")
	}
	want := []string{
		"NAME   QUEUE      USER   STATE     TIME      NODES   NODELIST(REASON)",
		"lmp    default    ada    Running   90s/20m   2       n[1-2]",
		"lmp    default    here   Queued    0s        2-4     (NoRoom)",
		"lmp    research   here   Queued    0s/60m    4       (WaitingForTurn)",
		"lmp    default    here   Failed    0s        4       (CommandFailed)",
	}
	if got := lines(); !slices.Equal(got, want) {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
	l.format, l.all = "wide", true
	if got, want := strings.Join(strings.Fields(lines()[1]), " "), "here lmp default ada Running 90s/20m 2 n[1-2] 60m 0/4 - 3"; got != want {
		t.Errorf("wide: got %s, want %s", got, want)
	}
}

func TestExplain(t *testing.T) {
	s, _ := session("")
	queue := &v1alpha2.MiniClusterQueue{}
	queue.Name, queue.Status.Pending = "research", 9
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "lmp"} {
		queue.Status.Waiting = append(queue.Status.Waiting, v1alpha2.WaitingMiniCluster{Name: name, Namespace: "", Position: int32(len(queue.Status.Waiting) + 1)})
	}
	alone := &v1alpha2.MiniClusterQueue{}
	alone.Name, alone.Status.Pending, alone.Status.Waiting = "default", 1, []v1alpha2.WaitingMiniCluster{{Name: "lmp"}}
	two := alone.DeepCopy()
	two.Status.Pending = 2
	closed := queue.DeepCopy()
	closed.Spec.Suspended = true
	queued := life("JobMiniClusterReady=!Queued", "Admitted=!NoRoom")
	for name, tc := range map[string]struct {
		mc    *v1alpha2.MiniCluster
		queue *v1alpha2.MiniClusterQueue
		want  []string
	}{
		"waits":            {queued, nil, []string{"lmp is Queued: Because.", "Reason: NoRoom.", "a minSize below 4", "a deadlineSeconds"}},
		"its place":        {queued, queue, []string{"It is number 8 of 9 in queue research, after /a, /b, /c, /d, /e, and 2 more."}},
		"no place":         {queued, two, []string{"\n2 MiniClusters wait in queue default.\n"}},
		"alone":            {queued, alone, []string{"\nNo other MiniCluster waits in queue default.\n"}},
		"a closed queue":   {queued, closed, []string{"Queue research is suspended: it starts nothing."}},
		"far behind":       {life("JobMiniClusterReady=!Queued"), &v1alpha2.MiniClusterQueue{}, []string{"lists the first 0"}},
		"suspended":        {life("JobMiniClusterReady=!Suspended"), nil, []string{"kubectl minicluster resume lmp"}},
		"rejected":         {life("JobMiniClusterReady=!Rejected"), nil, []string{"a change of the spec"}},
		"finished":         {life("JobMiniClusterReady=Succeeded"), nil, []string{"lmp is Succeeded: Because."}},
		"nobody looked":    {life(), nil, []string{"lmp is New."}},
		"never fits":       {waitsFor("NeverFits", "Needs room for 4 brokers; the whole cluster of 3 nodes has room for 3"), nil, []string{"help: a minSize below 4, if the command can run with fewer brokers; smaller requests"}},
		"waits for a size": {life("JobMiniClusterReady=!Queued", "Admitted=!WaitingForSize"), nil, []string{"elastic.waitForSize"}},
	} {
		got := strings.Join(explain(tc.mc, tc.queue, nil, s), "\n")
		for _, want := range tc.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: %q is not in:\n%s", name, want, got)
			}
		}
	}
}

// The Lease of the leader says which version leads, or led last.
func TestManagerOf(t *testing.T) {
	s, _ := session("")
	now := s.Clock.Now()
	lease := func(holder string, ago time.Duration, labels map[string]string) *coordinationv1.Lease {
		l := &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: &metav1.MicroTime{Time: now.Add(-ago)}}}
		l.Labels = labels
		return l
	}
	labels := map[string]string{version.LeaseLabel: "v1.2.3"}
	for want, l := range map[string]*coordinationv1.Lease{
		"v1.2.3: a-1 leads": lease("a-1_1f0d", 3*time.Second, labels),
		"v1.2.3: no manager leads: the last one was seen 2d ago": lease("a-1", 48*time.Hour, labels),
		"v1.2.3: no manager leads: the last one was seen 3s ago": lease("", 3*time.Second, labels), // it gave the Lease back
		"unknown: a-1 leads":        lease("a-1", 0, nil), // an older manager
		"unknown: no manager leads": {},
	} {
		m := managerOf(l)
		if got := m.Version + ": " + m.state(now); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestBrokers(t *testing.T) {
	pod := func(index string, age int, phase corev1.PodPhase) corev1.Pod {
		p := corev1.Pod{Status: corev1.PodStatus{Phase: phase}}
		p.Name, p.Labels = "lmp-w-0-"+index, map[string]string{jobsetapi.ReplicatedJobNameKey: v1alpha2.WorkersJob, batchv1.JobCompletionIndexAnnotation: index}
		p.CreationTimestamp = metav1.Unix(int64(-age), 0)
		return p
	}
	up := pod("0", 0, corev1.PodRunning)
	up.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	var got []string
	for _, b := range brokersFrom(&v1alpha2.Admission{Size: 4, Nodes: "n[1-4]", Vacated: "3"}, []corev1.Pod{up, pod("0", 9, corev1.PodFailed), pod("1", 0, corev1.PodPending)}) {
		got = append(got, b.node+" "+b.state)
	}
	if want := "n1 without a pod, n2 up, n3 starting, n4 left"; strings.Join(got, ", ") != want {
		t.Errorf("got %v, want %s", got, want)
	}
}
