package rtnetlink

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// refusal is an error of the kernel with the kernel's explanation.
type refusal struct {
	errno unix.Errno
	text  string
}

func (r refusal) Error() string {
	if r.text == "" {
		return r.errno.Error()
	}
	return fmt.Sprintf("%s (%s)", strings.TrimSuffix(r.text, "."), r.errno.Error())
}

func (r refusal) Unwrap() error { return r.errno }

// failure decodes the message that ends a dump or answers a request.
func failure(h Header, body []byte) error {
	if len(body) < 4 {
		return fmt.Errorf("netlink result of %d bytes: %w", len(body), unix.EBADMSG)
	}
	code := int32(native.Uint32(body))
	if code == 0 {
		return nil
	}
	r := refusal{errno: unix.Errno(-code)}
	if h.Flags&unix.NLM_F_ACK_TLVS == 0 {
		return r
	}
	skip := 4
	if h.Kind == unix.NLMSG_ERROR {
		skip += unix.SizeofNlMsghdr // the header of the request, without its body: NETLINK_CAP_ACK
	}
	r.text = Text(Attribute(body[min(skip, len(body)):], unix.NLMSGERR_ATTR_MSG))
	return r
}
