// Package scenes knows the end-to-end tests: which promise each proves, and which may share the
// machine. It runs them in several labs beside each other.
//
// A scene waits most of its time: for a lease, a timer or a pod. So several labs share the scenes,
// and each lab runs one scene at a time.
package scenes

import (
	"fmt"
	"hash/fnv"
	"slices"
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
const Parts = 4

// Promises returns the scenes of `make test`.
func Promises() []Scene {
	return slices.DeleteFunc(slices.Clone(All), func(s Scene) bool { return s.Promise == 0 })
}

// Part returns the number of a part, from 1 to Parts, and its scenes. The key, such as the hash of a
// commit, chooses the part.
func Part(key string) (number int, part []Scene) {
	h := fnv.New32a()
	_, _ = h.Write([]byte(key))
	chosen := int(h.Sum32() % Parts)
	i := 0
	for _, s := range All {
		if s.Promise != 0 {
			continue
		}
		if i%Parts == chosen {
			part = append(part, s)
		}
		i++
	}
	return chosen + 1, part
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
