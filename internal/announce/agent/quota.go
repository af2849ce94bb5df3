package agent

import (
	"log/slog"
	"maps"
	"slices"
	"time"
)

// quota limits messages about single addresses: an agent that starts in a cluster with ten thousand
// Services decides on all of them. It logs the first quotaSize messages of each kind in a minute, and
// the number of the others.
type quota struct {
	began time.Time
	used  map[string]int
}

const quotaSize, quotaTime = 100, time.Minute

// turn begins another minute if the last one is over. It logs how many messages were left out.
func (q *quota) turn(now time.Time, log *slog.Logger, node string) {
	if now.Sub(q.began) < quotaTime {
		return
	}
	for _, message := range slices.Sorted(maps.Keys(q.used)) {
		if left := q.used[message] - quotaSize; left > 0 {
			log.Info("notLogged", "node", node, "message", message, "addresses", left)
		}
	}
	q.began, q.used = now, map[string]int{}
}

// info logs message unless its quota is used up.
func (q *quota) info(log *slog.Logger, message string, facts ...any) {
	if q.used == nil {
		q.used = map[string]int{}
	}
	if q.used[message]++; q.used[message] <= quotaSize {
		log.Info(message, facts...)
	}
}
