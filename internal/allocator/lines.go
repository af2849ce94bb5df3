package allocator

import (
	"slices"

	"purelb.io/purelb/internal/selection"
	"purelb.io/purelb/internal/service"
)

// topic is something that Services wait for: a need, or an address on which a
// sharing key is in effect.
type topic struct {
	need selection.Need
	key  string
	// namespace is the one that the address is shared in; "" is for one that is
	// shared across namespaces.
	namespace string
}

// topicsOf are the topics of a Service with these needs. One that waits for an
// address that is free is also glad of one that it may share.
func topicsOf(r service.Request, needs []selection.Need) []topic {
	var topics []topic
	for _, n := range needs {
		topics = append(topics, topic{need: n})
	}
	if r.SharingKey != "" && len(needs) > 0 {
		topics = append(topics, topic{key: r.SharingKey}, topic{key: r.SharingKey, namespace: r.Namespace})
	}
	return topics
}

// lines are those who wait, by what they wait for, each line the oldest first.
type lines map[topic][]*waiter

// join puts w into the lines of its topics.
func (l lines) join(w *waiter) {
	for _, t := range w.topics {
		if at, there := slices.BinarySearchFunc(l[t], w, olderWaiter); !there {
			l[t] = slices.Insert(l[t], at, w)
		}
	}
}

// leave takes w out of all lines.
func (l lines) leave(w *waiter) {
	for _, t := range w.topics {
		at, there := slices.BinarySearchFunc(l[t], w, olderWaiter)
		switch {
		case !there:
		case len(l[t]) == 1:
			delete(l, t)
		default:
			l[t] = slices.Delete(l[t], at, at+1)
		}
	}
	w.topics = nil
}

// after returns the oldest in the line of t that is younger than w, or the very
// oldest when w is nil; nil when there is none.
func (l lines) after(t topic, w *waiter) *waiter {
	line, at := l[t], 0
	if w != nil {
		var there bool
		if at, there = slices.BinarySearchFunc(line, w, olderWaiter); there {
			at++
		}
	}
	if at == len(line) {
		return nil
	}
	return line[at]
}
