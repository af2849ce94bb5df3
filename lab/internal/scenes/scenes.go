// Package scenes knows the end-to-end tests: which promise each proves, and which may share the
// machine. It runs them in several labs beside each other.
//
// A scene waits most of its time: for a lease, a timer or a pod. So several labs share the scenes,
// and each lab runs one scene at a time.
package scenes

import (
	"fmt"
	"hash/fnv"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// Scene is a test of lab/e2e.
type Scene struct {
	Test string
	// Promise is the promise in CONTRIBUTING.md that `make test` proves by this scene, or 0.
	Promise int
	// Alone is true for a scene that measures times: it runs while no other scene does.
	Alone bool
}

// Parts is in how many parts continuous integration divides the scenes that `make test` leaves out.
// Eight commits run a part with a probability of 96 %.
const Parts = 3

// Labs returns how many labs this machine can run beside each other: one more than there are CPUs,
// because a scene waits most of its time. The programs of a lab use 43 inotify instances. Linux counts
// those of a user (128 on Debian: fs.inotify.max_user_instances, inotify(7)).
func Labs() int {
	labs := 1 + runtime.NumCPU()
	text, err := os.ReadFile("/proc/sys/fs/inotify/max_user_instances")
	if instances, bad := strconv.Atoi(strings.TrimSpace(string(text))); err == nil && bad == nil {
		labs = min(labs, instances/50)
	}
	return max(1, labs)
}

// Promises returns the scenes of `make test`.
func Promises() []Scene {
	return slices.DeleteFunc(slices.Clone(All), func(s Scene) bool { return s.Promise == 0 })
}

// Part returns the number of a part, from 1 to Parts, and its scenes. The key is the number, or any
// other text that chooses one, such as the hash of a commit.
func Part(key string) (number int, part []Scene) {
	number, err := strconv.Atoi(key)
	if err != nil || number < 1 || number > Parts {
		h := fnv.New32a()
		_, _ = h.Write([]byte(key))
		number = int(h.Sum32()%Parts) + 1
	}
	rest := slices.DeleteFunc(slices.Clone(All), func(s Scene) bool { return s.Promise != 0 })
	for i := number - 1; i < len(rest); i += Parts {
		part = append(part, rest[i])
	}
	return number, part
}

// Named returns the scenes of these tests.
func Named(tests []string) ([]Scene, error) {
	var named []Scene
	for _, test := range tests {
		i := slices.IndexFunc(All, func(s Scene) bool { return s.Test == test })
		if i < 0 {
			return nil, fmt.Errorf("no scene %s: lab/internal/scenes/table.go lists them", test)
		}
		named = append(named, All[i])
	}
	return named, nil
}
