package linux

import (
	"errors"
	"io"
	"log/slog"
	"os"
	"strconv"
	"strings"

	"purelb.io/purelb/internal/announce"
)

// arpSettings are the settings of ARP of one link, or those for all links: arp_announce and arp_ignore.
// The kernel uses the larger one of the two for each.
type arpSettings struct{ announce, ignore uint32 }

// loose reports whether the kernel answers ARP requests on one of the links for addresses that it has on
// other links, and whether it asks on one of them with any of its addresses as the sender. all are the
// settings for all links.
//
// It ignores links without an IPv4 address that other machines can reach. Such links are the veths
// of pods: they have no address, a link-local address, or an address with a /32 mask.
func (all arpSettings) loose(links []link, addresses []announce.Address) (answers, anySender bool) {
	networks := map[string]bool{}
	for _, a := range addresses {
		ip := a.Prefix.Addr()
		networks[a.Link] = networks[a.Link] || ip.Is4() && !a.Prefix.IsSingleIP() && ip.IsGlobalUnicast()
	}
	for _, l := range links {
		if l.Neighbors && l.Up && networks[l.Name] {
			answers = answers || !strictARP(max(all.ignore, l.arp.ignore))
			anySender = anySender || max(all.announce, l.arp.announce) == 0
		}
	}
	return answers, anySender
}

// strictARP reports whether a kernel with this arp_ignore answers only for addresses of the
// link. With 3 it answers for all addresses with a scope wider than that of a host. The
// kernel handles the undefined values 4 to 7 like 0.
func strictARP(ignore uint32) bool { return ignore == 1 || ignore == 2 || ignore == 8 }

// arpFiles are the files with the settings for all links. A file that cannot be read is nil. They stay
// open, because a thread may be in another namespace later.
type arpFiles struct{ announce, ignore *os.File }

func openARP(log *slog.Logger) arpFiles {
	open := func(name string) *os.File {
		f, err := os.Open("/proc/sys/net/ipv4/conf/all/" + name)
		if err != nil {
			log.Debug("a setting of ARP for all links is not readable", "error", err)
			return nil
		}
		return f
	}
	return arpFiles{announce: open("arp_announce"), ignore: open("arp_ignore")}
}

// read returns the present settings. One that cannot be read counts as 0.
func (f arpFiles) read() arpSettings {
	return arpSettings{announce: readNumber(f.announce), ignore: readNumber(f.ignore)}
}

func (f arpFiles) close() error {
	var errs []error
	for _, file := range []*os.File{f.announce, f.ignore} {
		if file != nil {
			errs = append(errs, file.Close())
		}
	}
	return errors.Join(errs...)
}

// readNumber returns the number in a file of sysctl, or 0 if it cannot be read.
func readNumber(f *os.File) uint32 {
	var text [16]byte
	if f == nil {
		return 0
	}
	n, err := f.ReadAt(text[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0
	}
	value, err := strconv.ParseUint(strings.TrimSpace(string(text[:n])), 10, 32)
	if err != nil {
		return 0
	}
	return uint32(value)
}
