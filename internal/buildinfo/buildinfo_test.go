package buildinfo

import "testing"

// The workflows make a release from a tag that begins with v, and versions of main from no tag.
func TestTheTagOfARelease(t *testing.T) {
	for release, want := range map[string]string{"": "main", "0.1.0": "v0.1.0", "1.2.3-rc.1": "v1.2.3-rc.1", "0.2.0-main.17": "main"} {
		if got := tagOf(release); got != want {
			t.Errorf("the tag of %q is %q, want %q", release, got, want)
		}
	}
}
