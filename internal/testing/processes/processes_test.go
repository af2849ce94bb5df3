package processes_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"purelb.io/purelb/internal/testing/expect"
)

// fixture is the test binary of testdata/fixture.
var fixture string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "processes")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	fixture = filepath.Join(dir, "fixture.test")
	if out, err := exec.Command("go", "test", "-c", "-o", fixture, "./testdata/fixture").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build the fixture: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// start runs the fixture to its end, and returns what it says and its exit code.
func start(t *testing.T, args ...string) (string, int) {
	t.Helper()
	cmd := exec.Command(fixture, args...)
	cmd.Dir = t.TempDir()
	out, _ := cmd.CombinedOutput()
	return string(out), cmd.ProcessState.ExitCode()
}

func TestEachTestHasItsResult(t *testing.T) {
	const others = "TestPass|TestSkip|"
	for _, tt := range []struct {
		name string
		args []string
		code int
		want []string // sorted
		says string
	}{
		{"a name that begins like another runs once", []string{"-test.run=Pass"}, 0, []string{"PASS TestPass", "PASS TestPassToo"}, ""},
		{
			"a failure fails the run, and the others still run", []string{"-test.run=^(" + others + "TestFail)$"},
			1, []string{"FAIL TestFail", "PASS TestPass", "SKIP TestSkip"}, "one is not two",
		},
		{
			"a panic", []string{"-test.run=^(" + others + "TestPanic)$"},
			1, []string{"FAIL TestPanic", "PASS TestPass", "SKIP TestSkip"}, "panic: out of cheese",
		},
		{
			"a process that dies", []string{"-test.run=^(" + others + "TestKilled)$"},
			1, []string{"PASS TestPass", "SKIP TestSkip"}, "the process of TestKilled: signal: killed",
		},
		{
			"a test that hangs ends with -test.timeout", []string{"-test.run=^(" + others + "TestHang)$", "-test.timeout=5s"},
			1, []string{"PASS TestPass", "SKIP TestSkip"}, "panic: test timed out after",
		},
		{"-test.skip", []string{"-test.run=Pass|Skip", "-test.skip=Too"}, 0, []string{"PASS TestPass", "SKIP TestSkip"}, "no such device"},
		{
			"-test.count", []string{"-test.run=Pass", "-test.count=2"},
			0, []string{"PASS TestPass", "PASS TestPass", "PASS TestPassToo", "PASS TestPassToo"}, "",
		},
		{
			"-test.short, and fuzz tests, but no benchmarks", []string{"-test.run=Short|Seed|Benchmark", "-test.short"},
			0, []string{"PASS FuzzSeed", "PASS TestShort"}, "short true",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out, code := start(t, append([]string{"-test.v"}, tt.args...)...)
			var got []string
			for _, found := range regexp.MustCompile(`(?m)^--- (\w+): (\w+) `).FindAllStringSubmatch(out, -1) {
				got = append(got, found[1]+" "+found[2])
			}
			slices.Sort(got)
			if code != tt.code || !slices.Equal(got, tt.want) || !strings.Contains(out, tt.says) {
				t.Errorf("exit code %d, %q, want %d, %q and %q in\n%s", code, got, tt.code, tt.want, tt.says, out)
			}
			verdict := []string{"PASS", "FAIL"}[tt.code]
			if regexp.MustCompile(`(?m)^(PASS|FAIL)$`).FindAllString(out, -1)[0] != verdict || !strings.HasSuffix(out, "\n"+verdict+"\n") {
				t.Errorf("want %s in the last line, and only there\n%s", verdict, out)
			}
		})
	}
}

func TestEachTestHasAProcess(t *testing.T) {
	for _, tt := range []struct {
		name string
		args []string
		want int
	}{
		{"by default", nil, 2},
		{"a profile is of one process", []string{"-test.cpuprofile=cpu"}, 1},
		{"a subtest", []string{"-test.run=Pass/none"}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out, code := start(t, append([]string{"-test.v", "-test.run=Pass"}, tt.args...)...)
			got := regexp.MustCompile(`pid \d+`).FindAllString(out, -1)
			slices.Sort(got)
			if got = slices.Compact(got); code != 0 || len(got) != tt.want {
				t.Errorf("exit code %d, processes %q, want %d of them\n%s", code, got, tt.want, out)
			}
		})
	}
}

func TestTheRunFailsWithoutItsWorld(t *testing.T) {
	t.Setenv("FIXTURE_UNPREPARED", "1")
	for _, pattern := range []string{"TestPass$", "Pass"} {
		if out, code := start(t, "-test.run="+pattern); code != 1 || !strings.Contains(out, "no world") {
			t.Errorf("-test.run=%s: exit code %d, want 1 and the reason\n%s", pattern, code, out)
		}
	}
}

// The go command takes a result from its cache as long as the variables are the same.
func TestTheGoCommandLearnsWhatTestsRead(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	if out, code := start(t, "-test.run=Pass|Short", "-test.testlogfile="+log); code != 0 {
		t.Fatal(out)
	}
	text, err := os.ReadFile(log)
	expect.NoError(t, err)
	header, read, _ := strings.Cut(string(text), "\n")
	lines := strings.Fields(strings.ReplaceAll(read, "getenv ", ""))
	slices.Sort(lines)
	if header != "# test log" || !slices.Equal(lines, []string{"FIXTURE_A", "FIXTURE_B"}) {
		t.Errorf("the log is %q, want both variables", text)
	}
	if files, _ := filepath.Glob(log + "*"); len(files) != 1 {
		t.Errorf("files %q, want only the log", files)
	}
}

func TestProcessesDieWithTheirParent(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	t.Setenv("FIXTURE_PID", file)
	cmd := exec.Command(fixture, "-test.run=Hang|Pass")
	expect.NoError(t, cmd.Start())
	defer func() { _ = cmd.Wait() }()
	await(t, "the process", func() bool { _, err := os.Stat(file); return err == nil })
	pid, err := os.ReadFile(file)
	expect.NoError(t, err)
	expect.NoError(t, cmd.Process.Kill())
	await(t, "the end of the process", func() bool {
		stat, err := os.ReadFile("/proc/" + string(pid) + "/stat")
		return err != nil || strings.Contains(string(stat), ") Z ") // nobody may wait for it
	})
}

// await asks until is says yes.
func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s does not come", what)
		}
	}
}
