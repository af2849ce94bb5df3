package agent

import (
	"context"
	"net/netip"

	"purelb.io/purelb/internal/announce"
)

// hearSegment notes whether any machine was heard on the segment of link, and logs when
// that changes.
func (a *Agent) hearSegment(ctx context.Context, link string, w announce.Witnesses, answers map[netip.Addr][6]byte) {
	silent := w.Missing(answers)
	if silent == a.silent[link] {
		return
	}
	a.silent[link] = silent
	if silent {
		a.Log.WarnContext(ctx, "segmentSilent", "node", a.Node, "interface", link, "unanswered", w.All())
		return
	}
	a.Log.InfoContext(ctx, "segmentHeard", "node", a.Node, "interface", link)
}
