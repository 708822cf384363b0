# limit: silent |
use strict;
use warnings;
use Digest::MD5 qw(md5_hex);
use IO::Handle;
use Time::HiRes qw(time);

my $seconds = @ARGV ? $ARGV[-1] : 6;
pipe(my $black_in, my $to_black) or die;
pipe(my $white_in, my $to_white) or die;
$_->autoflush(1) for $to_black, $to_white;

my $black = fork;
unless ($black) {
    $0 = 'black';
    close $to_black;
    while (my $board = <$black_in>) {
        chomp $board;
        my $reply = $board;
        $reply = md5_hex($reply . $_) for 1 .. 1500;
        print {$to_white} "$reply\n";
    }
    exit 0;
}
$0 = 'white';
close $to_white;
my ($moves, $board, $until) = (0, 'e4', time + $seconds);
while (time < $until) {
    $board = md5_hex($board . $_) for 1 .. 1500;
    print {$to_black} "$board\n";
    chomp($board = <$white_in>);
    $moves++;
}
close $to_black;
waitpid $black, 0;
print "$moves moves, $board\n";
