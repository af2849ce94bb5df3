package agent

import (
	"context"
	"net/netip"

	"purelb.io/purelb/internal/announce"
)

// hearSegment notes whether any machine was heard on a segment, and logs when that
// changes.
func (a *Agent) hearSegment(ctx context.Context, where side, w announce.Witnesses, answers map[netip.Addr][6]byte) {
	silent := w.Missing(answers)
	if silent == a.silent[where] {
		return
	}
	a.silent[where] = silent
	if silent {
		a.Log.WarnContext(ctx, "segmentSilent", "node", a.Node, "interface", where.link, "family", where.family, "unanswered", w.All())
		return
	}
	a.Log.InfoContext(ctx, "segmentHeard", "node", a.Node, "interface", where.link, "family", where.family)
}
