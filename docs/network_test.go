package docs

import (
	"os/exec"
	"testing"
)

// secondCard is a node whose second card has the network 203.0.113.0/24, and a client behind a router.
// "check 1" makes the router accept packets only by the interface of the route back (strict rp_filter).
// 203.0.113.200 is the node itself, and 203.0.113.201 is translated to a pod, as kube-proxy does.
const secondCard = `
mount -t tmpfs tmpfs /run
for n in client router node pod; do ip netns add $n; ip -n $n link set lo up; done
cable() { ip link add $2 netns $1 type veth peer name $5 netns $4; ip -n $1 addr add $3 dev $2; ip -n $4 addr add $6 dev $5; ip -n $1 link set $2 up; ip -n $4 link set $5 up; }
cable client eth0 198.51.100.10/24 router east 198.51.100.1/24
cable node eth0 10.0.0.11/24 router eth0 10.0.0.1/24
cable node eth1 203.0.113.11/24 router eth1 203.0.113.1/24
cable node veth0 10.244.1.1/24 pod eth0 10.244.1.2/24
ip -n client route add default via 198.51.100.1
ip -n node route add default via 10.0.0.1
ip -n pod route add default via 10.244.1.1
ip -n node addr add 203.0.113.200/32 dev eth1
ip -n node addr add 203.0.113.201/32 dev eth1
for n in router node; do ip netns exec $n sysctl -qw net.ipv4.ip_forward=1; done
check() { for i in all east eth0 eth1; do ip netns exec router sysctl -qw net.ipv4.conf.$i.rp_filter=$1; done; }
for i in all eth0 eth1 veth0; do ip netns exec node sysctl -qw net.ipv4.conf.$i.rp_filter=0; done
ip netns exec node nft "add table ip nat; add chain ip nat pre {type nat hook prerouting priority dstnat;}; add rule ip nat pre ip daddr 203.0.113.201 dnat to 10.244.1.2"
visit() { for a in 203.0.113.200 203.0.113.201; do ip netns exec client ping -qc1 -W$1 $a >/dev/null && echo "$2: $a answers"; done; true; }
`

// The recipe of your-network.md brings answers back by the interface that the question came by.
func TestTheRecipeForSecondCardsBringsAnswersBack(t *testing.T) {
	examples := blocksBelow(t, "your-network.md", "## Second cards\n")
	script := secondCard + "check 0; visit 5 unchecked; check 1; visit 1 checked\n" +
		"ip netns exec node nft -f - <<'END'\n" + examples[0].code + "END\n" +
		"ip netns exec node sh -ec '" + examples[1].code + "'\n" +
		"visit 5 recipe\n"
	cmd := exec.CommandContext(t.Context(), "unshare", "--net", "--mount", "sh", "-ec", script)
	out, err := cmd.CombinedOutput()
	want := "unchecked: 203.0.113.200 answers\nunchecked: 203.0.113.201 answers\nrecipe: 203.0.113.200 answers\nrecipe: 203.0.113.201 answers\n"
	if err != nil || string(out) != want {
		t.Errorf("%v\n%s\nwant\n%s", err, out, want)
	}
}
