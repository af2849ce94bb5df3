package gobgp

import (
	"log/slog"
	"strings"
	"testing"
)

func TestGoBGPLogsAtLowerLevelsExceptLimitWarnings(t *testing.T) {
	var text book
	log := slog.New(newLogHandler(text.logger()))
	log.Error("one")
	log.Warn("two")
	log.Warn(tooMuch, "Key", "192.0.2.2", "Pct", 80)
	for _, want := range []string{"level=WARN msg=one", "level=INFO msg=two", `level=WARN msg="prefix limit reached" Key=192.0.2.2 Pct=80`} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is not in\n%s", want, text.String())
		}
	}
}
