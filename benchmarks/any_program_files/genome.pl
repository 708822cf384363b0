# limit: process,thread | genome|perl
# The parent hands reads to a child over a pipe, which matches them slowly.
use strict; use warnings; use Time::HiRes qw(time);
my $end = time + $ARGV[0];
pipe(my $in, my $out) or die;
my $pid = fork;
if (!$pid) {
    close $out; my $hits = 0;
    while (my $read = <$in>) { chomp $read; for my $k (0 .. length($read) - 4) { my $m = substr($read, $k, 4); $hits++ while $read =~ /\Q$m\E/g; } }
    print "$hits\n"; exit 0;
}
close $in; my $n = 0;
while (time < $end) { print $out join("", map { (qw(A C G T))[($_ * 7 + $n) % 4] } 1 .. 60), "\n"; $n++; }
close $out; waitpid($pid, 0);
