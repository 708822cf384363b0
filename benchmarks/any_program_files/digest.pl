# limit: process | digest.pl: |forked|child|perl
# A parent reads numbers from a forked child over a pipe; the child works long for each.
use strict; use warnings; use Time::HiRes 'time';
my $until = time + $ARGV[0];
pipe(my $from, my $to) or die;
if (!fork) {
    close $from;
    $to->autoflush(1);
    while (time < $until) {
        my $sum = 0;
        $sum = ($sum * 31 + $_) % 65521 for 1 .. 60000;
        print $to "$sum\n";
    }
    exit 0;
}
close $to;
my $all = 0;
$all ^= $_ while <$from>;
wait;
print "$all\n";
