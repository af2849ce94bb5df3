package linux

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/userdata"
	"golang.org/x/sys/unix"

	"purelb.io/purelb/internal/rtnetlink"
)

// The table of the agent. Each of its sets has the addresses of a family.
var (
	guardTable = &nftables.Table{Name: "purelb", Family: nftables.TableFamilyINet}
	guardSet4  = &nftables.Set{Table: guardTable, Name: "services4", ID: 1, KeyType: nftables.TypeIPAddr}
	guardSet6  = &nftables.Set{Table: guardTable, Name: "services6", ID: 2, KeyType: nftables.TypeIP6Addr}
	// guardChain comes after the filters, because kube-proxy refuses there what has no endpoints, and
	// after IPVS, which takes its packets out of the same hook at priority 99.
	guardChain = &nftables.Chain{
		Table: guardTable, Name: "input", Type: nftables.ChainTypeFilter,
		Hooknum: nftables.ChainHookInput, Priority: nftables.ChainPriorityRef(*nftables.ChainPriorityNATSource + 10),
	}
)

// sizeofNfgenmsg is the size of struct nfgenmsg, with which messages of netfilter begin.
const sizeofNfgenmsg = 4

// guardBatch is how many addresses one message holds. A netlink attribute has 64 KiB at most.
const guardBatch = 1000

// openGuard opens the sockets for the table. A Stack without them reports that whenever it needs them.
func (s *Stack) openGuard() {
	if s.guard, s.guardErr = nftables.New(nftables.AsLasting()); s.guardErr != nil {
		return
	}
	if sock, err := rtnetlink.Open(unix.NETLINK_NETFILTER); err == nil {
		s.generations = rtnetlink.NewConn(sock)
	}
}

func (s *Stack) closeGuard() (err error) {
	if s.generations != nil {
		err = s.generations.Close()
	}
	if s.guard != nil {
		err = errors.Join(err, s.guard.CloseLasting())
	}
	s.guard, s.generations, s.settled = nil, nil, settled{}
	return err
}

// settled is what Guard found or made last.
type settled struct {
	// generation is the number of nftables' last change, before Guard read the table.
	generation uint32
	closed     []netip.Addr
}

// Guard closes the node behind these addresses: a packet of TCP, UDP or SCTP that arrives for one of them
// reaches a program of the node only if it was translated, as kube-proxy does for the ports of Services.
// Without addresses, there is no table. Guard reads the table and writes what differs. To read 10,000
// addresses takes the kernel 30 ms, so Guard reads again only after a program changed something in
// nftables, Guard itself included, or other addresses are wanted.
func (s *Stack) Guard(ctx context.Context, closed []netip.Addr) error {
	generation := s.generation(ctx)
	if generation != 0 && generation == s.settled.generation && slices.Equal(closed, s.settled.closed) {
		return nil
	}
	if err := s.writeGuard(closed); err != nil {
		_ = s.closeGuard() // messages about it may still wait in the socket, and would be taken for the next answers
		s.openGuard()
		return err
	}
	s.settled = settled{generation, slices.Clone(closed)}
	return nil
}

// generation returns the number of the last change in nftables, or 0 if the kernel does not tell it.
func (s *Stack) generation(ctx context.Context) uint32 {
	if s.generations == nil {
		return 0
	}
	body, err := s.generations.Ask(ctx, rtnetlink.NewRequest(unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_GETGEN, 0, make([]byte, sizeofNfgenmsg)))
	if err != nil || len(body) < sizeofNfgenmsg {
		return 0
	}
	if id := rtnetlink.Attribute(body[sizeofNfgenmsg:], unix.NFTA_GEN_ID); len(id) == 4 {
		return binary.BigEndian.Uint32(id)
	}
	return 0
}

func (s *Stack) writeGuard(closed []netip.Addr) error {
	rules, err := s.readGuard()
	switch none := len(closed) == 0; {
	case none && len(rules) == 0: // also on a kernel without nftables
		return nil
	case err != nil:
		return fmt.Errorf("read the table %s: %w", guardTable.Name, err)
	case none:
		s.guard.DelTable(guardTable)
		return s.flushGuard()
	}
	if !slices.EqualFunc(rules, guardRules(), sameRule) {
		if err := s.buildGuard(); err != nil {
			return err
		}
	}
	return errors.Join(s.fillGuard(guardSet4, closed, netip.Addr.Is4), s.fillGuard(guardSet6, closed, netip.Addr.Is6))
}

// readGuard returns the rules of the table, or none if there is no table.
func (s *Stack) readGuard() ([]*nftables.Rule, error) {
	if s.guardErr != nil {
		return nil, s.guardErr
	}
	return s.guard.GetRules(guardTable, guardChain)
}

// buildGuard makes the table with these rules, and keeps the addresses that its sets have.
func (s *Stack) buildGuard() error {
	s.guard.AddTable(guardTable)
	for _, set := range []*nftables.Set{guardSet4, guardSet6} {
		if err := s.guard.AddSet(set, nil); err != nil {
			return err
		}
	}
	s.guard.AddChain(guardChain)
	s.guard.FlushChain(guardChain)
	for _, rule := range guardRules() {
		s.guard.AddRule(rule)
	}
	return s.flushGuard()
}

// fillGuard writes the difference between set and the addresses of its family.
func (s *Stack) fillGuard(set *nftables.Set, closed []netip.Addr, ofFamily func(netip.Addr) bool) error {
	found, err := s.guard.GetSetElements(set)
	if err != nil {
		return fmt.Errorf("read the set %s: %w", set.Name, err)
	}
	surplus := make(map[netip.Addr]bool, len(found))
	for _, e := range found {
		if ip, ok := netip.AddrFromSlice(e.Key); ok {
			surplus[ip] = true
		}
	}
	var add, remove []nftables.SetElement
	for _, ip := range closed {
		if ofFamily(ip) && !surplus[ip] {
			add = append(add, nftables.SetElement{Key: ip.AsSlice()})
		}
		delete(surplus, ip)
	}
	for ip := range surplus {
		remove = append(remove, nftables.SetElement{Key: ip.AsSlice()})
	}
	return errors.Join(s.changeSet(set, add, s.guard.SetAddElements), s.changeSet(set, remove, s.guard.SetDeleteElements))
}

func (s *Stack) changeSet(set *nftables.Set, elements []nftables.SetElement, change func(*nftables.Set, []nftables.SetElement) error) error {
	for some := range slices.Chunk(elements, guardBatch) {
		if err := change(set, some); err != nil {
			return err
		}
		if err := s.flushGuard(); err != nil {
			return err
		}
	}
	return nil
}

func (s *Stack) flushGuard() error {
	if err := s.guard.Flush(); err != nil {
		return fmt.Errorf("change the table %s: %w", guardTable.Name, err)
	}
	return nil
}

// guardRules are the rules of the chain. A program tells them apart by their comments alone, so a rule
// that changes needs another comment.
func guardRules() []*nftables.Rule {
	accept, drop := &expr.Verdict{Kind: expr.VerdictAccept}, &expr.Verdict{Kind: expr.VerdictDrop}
	var rules []*nftables.Rule
	rule := func(comment string, exprs ...expr.Any) {
		rules = append(rules, &nftables.Rule{Table: guardTable, Chain: guardChain, Exprs: exprs,
			UserData: userdata.AppendString(nil, userdata.TypeComment, comment)})
	}
	rule("no IPv4 address of a Service", slices.Concat(meta(expr.MetaKeyNFPROTO, unix.NFPROTO_IPV4), notIn(guardSet4, 16, 4), []expr.Any{accept})...)
	rule("no IPv6 address of a Service", slices.Concat(meta(expr.MetaKeyNFPROTO, unix.NFPROTO_IPV6), notIn(guardSet6, 24, 16), []expr.Any{accept})...)
	rule("translated, as kube-proxy does",
		&expr.Ct{Key: expr.CtKeySTATUS, Register: 1},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: native.AppendUint32(nil, ipsDstNAT), Xor: make([]byte, 4)},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: make([]byte, 4)}, accept)
	rule("an answer to the node",
		&expr.Ct{Key: expr.CtKeyDIRECTION, Register: 1}, &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{ipCTDirReply}}, accept)
	rule("for a transparent proxy, such as Cilium's",
		&expr.Socket{Key: expr.SocketKeyTransparent, Register: 1}, &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{1}}, accept)
	rule("UDP is refused, so that traceroute ends", append(meta(expr.MetaKeyL4PROTO, unix.IPPROTO_UDP),
		&expr.Reject{Type: unix.NFT_REJECT_ICMPX_UNREACH, Code: unix.NFT_REJECT_ICMPX_PORT_UNREACH})...)
	rule("TCP", append(meta(expr.MetaKeyL4PROTO, unix.IPPROTO_TCP), drop)...)
	rule("SCTP", append(meta(expr.MetaKeyL4PROTO, unix.IPPROTO_SCTP), drop)...)
	return rules
}

// ipsDstNAT is IPS_DST_NAT, the mark of a connection whose destination was translated. ipCTDirReply is
// IP_CT_DIR_REPLY, the direction of its answers.
const (
	ipsDstNAT    = 1 << 5
	ipCTDirReply = 1
)

// meta compares a property of a packet that has one byte.
func meta(key expr.MetaKey, value byte) []expr.Any {
	return []expr.Any{&expr.Meta{Key: key, Register: 1}, &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{value}}}
}

// notIn matches packets whose destination, at this place in the header, is not in set.
func notIn(set *nftables.Set, offset, length uint32) []expr.Any {
	return []expr.Any{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: length},
		&expr.Lookup{SourceRegister: 1, SetName: set.Name, Invert: true},
	}
}

func sameRule(a, b *nftables.Rule) bool { return slices.Equal(a.UserData, b.UserData) }
