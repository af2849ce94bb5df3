package scenes

import "testing"

func TestAFailedSceneSaysWhyAtTheEnd(t *testing.T) {
	const output = `=== RUN   TestADrain
    watched_test.go:141: 172.30.250.120: 300 of 340 probes answered
    watched_test.go:143: want at most 5 lost:
          22:58:24.101 for    279 ms: node-2
--- logs of lbnodeagent (<nil>)
[pod/lbnodeagent-7wlvh/lbnodeagent] {"level":"INFO","msg":"peer is alive"}
--- FAIL: TestADrain (11.71s)
`
	const want = `    watched_test.go:141: 172.30.250.120: 300 of 340 probes answered
    watched_test.go:143: want at most 5 lost:
          22:58:24.101 for    279 ms: node-2
`
	if got := reasons(output); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
