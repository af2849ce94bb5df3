package agent

import (
	"testing"

	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/testing/expect"
)

func TestTheMACsOfTheNodeArePublished(t *testing.T) {
	inWorld(t, func(w *world) {
		w.kernel.links[1].MAC = [6]byte{2, 0, 0, 0, 0, 1}
		w.kernel.links = append(w.kernel.links, announce.Link{Name: "veth7", Index: 7, MAC: [6]byte{2, 0, 0, 0, 0, 2}})
	}, func(w *world) {
		expect.Equal(t, "published MACs", w.peers.macs, "[02:00:00:00:00:01]")
	})
}
